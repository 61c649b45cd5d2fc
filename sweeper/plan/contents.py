"""Does a chat template walk over the parts of a content, or take it as one text?

vLLM's ``_detect_content_format`` on the template's syntax tree (0.32): it gives a content as a list
of parts to the first kind, and as a text to the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes


def walks_parts(tree: nodes.Template) -> bool:
    """Whether a loop of ``tree`` goes over the content of a message."""
    turns = set(_turn_names(tree))
    inside: set[int] = set()
    for macro in tree.find_all(nodes.Macro):
        loops = list(macro.find_all(nodes.For))
        inside |= {id(loop) for loop in loops}
        taking = _content_parameters(tree, macro, turns)
        if any(isinstance(loop.iter, nodes.Name) and loop.iter.name in taking for loop in loops):
            return True
    return any(
        any(_reads(loop.iter, name, "content") for name in turns)
        or (id(loop) not in inside and _reads_name(loop.iter, "content"))
        for loop in tree.find_all(nodes.For)
    )


def _turn_names(tree: nodes.Template) -> Iterator[str]:
    """What loops over the messages, or over names given to some of them, call one message."""
    lists = ["messages"]
    for name in lists:
        for assign in tree.find_all(nodes.Assign):
            target = assign.target
            if _reads(assign.node, name) and isinstance(target, nodes.Name):
                lists += [target.name] if target.name not in lists else []
    for loop in tree.find_all(nodes.For):
        if isinstance(loop.target, nodes.Name) and any(_reads(loop.iter, n) for n in lists):
            yield loop.target.name


def _content_parameters(tree: nodes.Template, macro: nodes.Macro, turns: set[str]) -> set[str]:
    """The parameters of a macro that some call gives a message's content."""
    names, found = [argument.name for argument in macro.args], set[str]()
    for call in tree.find_all(nodes.Call):
        if not _reads_name(call.node, macro.name):
            continue
        given = [*zip(names, call.args, strict=False), *((k.key, k.value) for k in call.kwargs)]
        found |= {
            name
            for name, value in given
            if name in names and any(_reads(value, turn, "content") for turn in turns)
        }
    return found


def _reads_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _reads(node: nodes.Node | None, name: str, key: str = "") -> bool:
    """Whether a node is ``name`` or ``name.key``, filtered, tested or cut as may be."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if not key:
        return node is not None and _reads_name(node, name)
    if isinstance(node, nodes.Getitem):
        named = isinstance(node.arg, nodes.Const) and node.arg.value == key
        return named and _reads_name(node.node, name)
    return isinstance(node, nodes.Getattr) and node.attr == key and _reads_name(node.node, name)
