"""What keeps maintenance from doing harm: one actor a table, positions on main, history somebody needs, locations."""
