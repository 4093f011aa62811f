"""Parallel text, from files to token ids and back: lines, Moses tokens, joint subwords, the cache, search, scores."""
