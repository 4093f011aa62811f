"""Parallel text from files to token ids: lines, Moses tokens, joint subwords, buckets of lengths, the cache."""
