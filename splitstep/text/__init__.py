"""Text: files from anywhere, documents, rows and lines in them, subwords learnt from them, what is held out."""
