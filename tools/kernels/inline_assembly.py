# ruff: noqa: SIM905 (word lists are easier to read and to compare than quoted items)
"""Checks the text of `tl.inline_asm_elementwise`, which may only do arithmetic on its operands.

PTX can read clocks and special registers, access memory, branch and stop a program. Only listed arithmetic and
conversion instructions are allowed, on operands (`$0`), numbers and registers that the text declares itself.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TEXT: Final = 4000
OPCODES: Final = frozenset(
    (
        "abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma fns lg2 lop3 mad "
        "mad24 madc max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct "
        "sqrt sub subc szext tanh testp xor"
    ).split()
)
_SPECIAL = re.compile(
    r"%?(tid|ntid|laneid|warpid|nwarpid|ctaid|nctaid|smid|nsmid|gridid|is_explicit\w*|cluster\w*|lanemask\w*|clock\w*|"
    r"pm\d\w*|envreg\w*|globaltimer\w*|reserved\w*|total\w*|aggr\w*|dynamic\w*|current\w*|warp_sz)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARATION = re.compile(r"\.reg\s+\.(?:pred|[bsuf]\d{1,3}|bf16|f16x2|bf16x2)\s+(.+)", re.DOTALL)
_REGISTER = re.compile(r"(%?[A-Za-z_][A-Za-z0-9_]*)(?:<\d{1,3}>)?")
_INSTRUCTION = re.compile(r"(?:@!?(%?[A-Za-z_]\w*)\s+)?([a-z][a-z0-9]*)((?:\.[a-z0-9]+)*)\s+(.+)", re.DOTALL)
_OPERAND = re.compile(r"\$\d{1,3}|%?[A-Za-z_][A-Za-z0-9_]*|-?0[fFdD][0-9A-Fa-f]+|-?0x[0-9A-Fa-f]+U?|-?\d+(?:\.\d+)?U?")
_CONSTRAINTS = re.compile(r"=?&?[rlhfdqbnci0-9](?:\s*,\s*=?&?[rlhfdqbnci0-9])*")


def fault_of_assembly(text: str) -> str | None:
    """Return the fault of an assembly text, or None."""
    if len(text) > MAX_TEXT:
        return f"inline assembly of more than {MAX_TEXT} characters"
    if not all(character in "\t\n" or " " <= character <= "~" for character in text):
        return "inline assembly holds characters that are not ASCII"
    statements = [" ".join(part.split()) for part in _without_scopes(_COMMENT.sub(" ", text)).split(";")]
    declared: set[str] = set()
    for statement in filter(None, statements):
        fault = _fault_of_statement(statement, declared)
        if fault:
            return fault
    return None


def fault_of_constraints(text: str) -> str | None:
    """Return the fault of the operands' constraints, or None."""
    return None if _CONSTRAINTS.fullmatch(text.strip()) else f"inline assembly with the constraints {text!r:.60}"


def _without_scopes(text: str) -> str:
    """Drop braces around statements, but keep an operand's braces (`{a, b}`), which contain no semicolon."""
    text = re.sub(r"\{([^{};]*)\}(?=\s*[,;])", r" (\1) ", text)
    return text.replace("{", ";").replace("}", ";")


def _fault_of_statement(statement: str, declared: set[str]) -> str | None:
    declaration = _DECLARATION.fullmatch(statement)
    if declaration:
        for name in declaration[1].split(","):
            register = _REGISTER.fullmatch(name.strip())
            if not register or _SPECIAL.fullmatch(register[1]):
                return f"inline assembly declares {name.strip()!r:.40}"
            declared.add(register[1])
        return None
    instruction = _INSTRUCTION.fullmatch(statement)
    if not instruction:
        return f"inline assembly holds {statement!r:.60}, which is not an arithmetic instruction"
    predicate, opcode, modifiers, operands = instruction.groups()
    if opcode not in OPCODES:
        return f"inline assembly uses {opcode}{modifiers}; only arithmetic and conversions are allowed"
    if predicate and not _is_declared(predicate, declared):
        return f"inline assembly uses the register {predicate}, which it does not declare"
    for operand in re.split(r"[,()|\s]+", operands):
        operand = operand.removeprefix("!")
        if not operand:
            continue
        if not _OPERAND.fullmatch(operand):
            return f"inline assembly uses the operand {operand!r:.40}"
        if (operand[0].isalpha() or operand[0] in "%_") and not _is_declared(operand, declared):
            return f"inline assembly uses {operand}, which is not a register that it declares"
    return None


def _is_declared(name: str, declared: set[str]) -> bool:
    return not _SPECIAL.fullmatch(name) and (name in declared or name.rstrip("0123456789") in declared)
