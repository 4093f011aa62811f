"""What a trained run is used for: its figures on a split, translations, text."""
