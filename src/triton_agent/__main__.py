"""`python -m triton_agent`, the same as the command `triton-agent`."""

from triton_agent.runs.cli.main import main

if __name__ == "__main__":
    main()
