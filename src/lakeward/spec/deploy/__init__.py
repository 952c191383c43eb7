"""What a changed spec means for a running stream: the deploy plan, upgrade order, state compatibility. Pure."""
