"""Measuring how far a candidate's outputs are from the reference's, and judging it."""
