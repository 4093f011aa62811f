"""How fields and losses are made fast: one kernel in place of several operations of PyTorch."""
