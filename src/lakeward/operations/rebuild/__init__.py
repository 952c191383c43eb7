"""rebuild: a stream's table made anew from its source beside the running stream, then swapped in."""
