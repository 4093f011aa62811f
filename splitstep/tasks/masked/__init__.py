"""Text to rows of tokens: reading, splitting, learning subwords, packing, masking."""
