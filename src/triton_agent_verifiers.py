"""The name under which the library verifiers finds the environment: `vf-eval triton_agent_verifiers`."""

from triton_agent.runs.train.verifiers_environment import KernelEnvironment, KernelTaskset

__all__ = ["KernelEnvironment", "KernelTaskset"]
