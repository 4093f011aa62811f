"""Uses of a finished run: its figures on a split, translations, text."""
