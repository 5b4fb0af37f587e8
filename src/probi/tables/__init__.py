"""Arrow tables and the four layouts: points, groups, long, nested. From and to the arrays of Nodes."""
