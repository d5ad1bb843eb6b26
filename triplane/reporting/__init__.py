"""Renderers: what was found out, for people and for machines. Imported by the commands only."""
