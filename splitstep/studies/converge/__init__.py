"""How a network depends on its discretisation: sub-steps, schemes, step lengths, and the limit of many layers."""
