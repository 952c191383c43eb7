"""What every sink that keeps a position shares: the position, a batch's offsets, and whether one follows the other."""
