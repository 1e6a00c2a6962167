"""Scripts for working on Bireme; not part of the package that users install."""
