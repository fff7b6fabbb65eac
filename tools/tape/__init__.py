"""What a candidate does, taken down as plain data: the tracer, the tape and its parts.

The tracer runs a candidate's Python without data; everybody else sees only the tape. May import `tools.isolate`.
"""
