"""Guards of maintenance: one lease a table, positions on main, snapshot pins, exclusive locations."""
