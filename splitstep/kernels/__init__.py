"""Fast versions of fields and losses: one kernel in place of several operations of PyTorch."""
