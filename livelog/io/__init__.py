"""Facts in, changes and views out: files, update scripts and the text of values."""
