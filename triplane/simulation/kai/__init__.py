"""KAI Scheduler's decisions: who may start, who is served first, who gives way, and where a gang lands."""
