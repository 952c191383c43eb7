"""The decisions of supervision: health, restart policy, reconcile, stability of a generation. Pure."""
