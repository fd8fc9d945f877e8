"""Figures: ours beside the floor, measured in the same run, printed as ratios."""
