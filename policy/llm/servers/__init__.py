"""Engines that ask a model over HTTP, one request per answer: OpenAI-compatible servers, and LangChain's providers.

`exchange.py` sends one request, `refusals.py` reads error responses, `reply.py` collects an answer.
"""
