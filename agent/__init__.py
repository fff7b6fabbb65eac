"""The loop: a LangGraph graph around the episode, search, budget."""
