"""The documentation site: `make docs` builds it into docs/_build/html, offline and with warnings as errors."""

import builtins
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import bireme  # noqa: E402  # after the path to it

project = "Bireme"
author = "the authors of Bireme"
release = version = bireme.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "_generated"]

html_theme = "furo"
html_title = f"Bireme {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "github-dark"
copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shape"]
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"


def code_or_link(name, rawtext, text, lineno, inliner, options=None, content=()):
    """`text` in a docstring: code, and a link if it is the name of something that is documented."""
    literal = nodes.literal(rawtext, text, classes=["docutils", "py", "py-obj"])
    target = text.removesuffix("()")
    if not target.replace(".", "").isidentifier():
        return [literal], []
    env = inliner.document.settings.env
    link = pending_xref(rawtext, literal, refdoc=env.docname, refdomain="py", reftype="obj", refexplicit=True)
    link["reftarget"] = target
    for key in ("py:module", "py:class"):
        link[key] = env.ref_context.get(key)
    return [link], []


default_role = "code-or-link"


def attributes_are_sentences(app, what, name, obj, options, lines):
    """Types stand in annotations: what comes before the first colon of an attribute's docstring is no type."""
    if what in ("attribute", "property", "data"):
        lines.insert(0, "")


def returns_are_sentences(app, what, name, obj, options, lines):
    """The same of Returns, put together again after napoleon has divided it."""
    for i, line in reversed(list(enumerate(lines))):
        if line.startswith(":rtype: "):
            start = max(j for j in range(i) if lines[j].startswith(":returns: "))
            lines[start] = lines[start].replace(":returns: ", f":returns: {lines.pop(i).removeprefix(':rtype: ')}: ", 1)


def plain_builtins(app, doctree):
    """`int` in a signature is Python's, not `Tensor.int`, which the search for a name would find."""
    for link in list(doctree.findall(pending_xref)):
        if link["refdomain"] == "py" and link["reftype"] == "class" and link["reftarget"] in vars(builtins):
            link.replace_self(nodes.Text(link["reftarget"]))


def decisions_below_their_list(app, docname, source):
    """The list of decisions is read in the repository too, where a directive of Sphinx's would stand out."""
    if docname == "decisions/README":
        source[0] += "\n:::{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n:::\n"


def setup(app):
    app.add_role("code-or-link", code_or_link)
    app.connect("autodoc-process-docstring", attributes_are_sentences, priority=100)
    app.connect("autodoc-process-docstring", returns_are_sentences, priority=900)
    app.connect("doctree-read", plain_builtins)
    app.connect("source-read", decisions_below_their_list)
