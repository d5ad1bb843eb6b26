"""The three layers in time: what a stack would do under a given load, before anyone pays for a GPU."""
