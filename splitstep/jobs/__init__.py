"""Where independent jobs run, and how a person sees them."""
