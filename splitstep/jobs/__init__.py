"""Where independent jobs run, and how their progress is shown."""
