"""Programs: public calls that are recorded before there are values, and made when there are."""
