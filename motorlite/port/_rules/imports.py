"""Pure: what becomes of import statements, and of the names that they import."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._finding import Mark
from motorlite.port._source import dotted, expression, text_of
from motorlite.port._table import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite.port._names import Local, Name, Names, Use
    from motorlite.port._report import Report
    from motorlite.port._source import Source
    from motorlite.port._table import Table

_STAR: Final = "write out the names that you use, then run this again"
_REBOUND: Final = "{text}, where `{name}` is the import: it also means something else in this file"
# The module that `import motorlite` does not import.
_GRIDFS: Final = "motorlite.gridfs"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What becomes of a local name."""

    # The name that replaces it in the file; None if uses are written out.
    new: str | None
    # What the new name means.
    ours: str
    # Whether its import stays, because some of its uses do.
    stays: bool
    # Modules that uses which are written out need.
    extras: tuple[str, ...] = ()


class Imports:
    """Plans the change of a file's imports, and reports it."""

    def __init__(self, table: Table, source: Source, names: Names, report: Report) -> None:
        self._table = table
        self._source = source
        self._names = names
        self._report = report
        # New names that the file already has for something of its own.
        self._taken = self._taken_names()
        self._kept = self._kept_names()
        # The modules that were added, and the blocks of their imports.
        self._added: set[tuple[str, cst.CSTNode | None]] = set()
        self._plans = {
            key: self._plan(facts.name, facts) for key, facts in names.locals.items() if facts.name not in self._kept
        }

    def run(self) -> None:
        """Report and change everything."""
        for key, plan in self._plans.items():
            for use in self._names.locals[key].uses:
                self._use(use, plan, self._names.locals[key])
        strings: dict[cst.SimpleString, list[tuple[Use, _Plan, Local]]] = {}
        for key, plan in self._plans.items():
            facts = self._names.locals[key]
            for use in facts.uses:
                if isinstance(use.node, cst.SimpleString):
                    strings.setdefault(use.node, []).append((use, plan, facts))
        for node, uses in strings.items():
            self._string(node, uses)
        for statement in self._names.statements:
            if not self._report.is_kept(statement):
                self._statement(statement)

    # --- what becomes of a local name ---

    def _taken_names(self) -> set[str]:
        found = set(self._source.own_names())
        for name, paths in self._source.imported_names().items():
            if not any(
                path.partition(".")[0] in (*PACKAGES, "motorlite") or self._table.target(path) for path in paths
            ):
                found.add(name)
        return found

    def _kept_names(self) -> set[str]:
        """The names of imports whose line is kept."""
        return {
            dotted(alias.asname.name) if alias.asname else dotted(alias.name).partition(".")[0]
            for statement in self._names.statements
            if self._report.is_kept(statement) and not isinstance(statement.names, cst.ImportStar)
            for alias in statement.names
            if alias.asname is None or isinstance(alias.asname.name, cst.Name)
        }

    def _plan(self, local: str, facts: Local) -> _Plan:
        if not facts.path:
            return _Plan(local, "", stays=True)
        if not facts.is_module:
            name = self._names.decided(facts.path)
            if not name.ours:
                return _Plan(local, "", stays=True)
            theirs, own = facts.path.rpartition(".")[2], name.ours.rpartition(".")[2]
            is_renamed = local == theirs and own not in self._taken and not self._is_fixed(local)
            return _Plan(own if is_renamed else local, name.ours, stays=False)
        ours = self._table.modules.get(facts.path, "")
        moved = [use for use in facts.uses if use.name.ours]
        do_some_stay = len(moved) < len(facts.uses)
        new = None if do_some_stay or not ours else self._new_name(local, facts.path, ours)
        plan = _Plan(new, ours, stays=do_some_stay or not (ours or moved))
        texts = [self._text(use, plan) for use in moved]
        extras = {
            _GRIDFS if text.startswith(f"{_GRIDFS}.") else "motorlite"
            for text in texts
            if new is None or (text.startswith(f"{_GRIDFS}.") and ours != _GRIDFS)
        }
        return replace(plan, extras=tuple(sorted(extras)))

    def _is_fixed(self, local: str) -> bool:
        """Whether a name means something else in places that are not renamed with it."""
        return local in self._source.rebound_names or local in self._source.class_names()

    def _new_name(self, local: str, path: str, ours: str) -> str:
        """The name of the module that replaces `path`: an alias, or a submodule's own name, stays."""
        if self._is_fixed(local):
            return local
        if local == path.partition(".")[0] and local != "gridfs":
            return "motorlite"
        is_alias = local != path.rpartition(".")[2]
        return local if is_alias or local == ours.rpartition(".")[2] else ours.rpartition(".")[2]

    def _text(self, use: Use, plan: _Plan) -> str:
        """The chain that replaces a use."""
        ours = use.name.ours
        if plan.new is not None and (ours == plan.ours or ours.startswith(f"{plan.ours}.")):
            is_elsewhere = plan.ours == "motorlite" and ours.startswith(_GRIDFS)
            return ours if is_elsewhere else plan.new + ours.removeprefix(plan.ours)
        return ours

    # --- uses ---

    def _use(self, use: Use, plan: _Plan, facts: Local) -> None:
        if isinstance(use.node, cst.SimpleString):
            return
        if not use.name.ours:
            self._stays(use.node, use.name)
            return
        text = self._replaced(use, plan, facts)
        if text == use.chain:
            return
        if facts.name in self._source.rebound_names:
            self._report.hand(use.node, _REBOUND.format(text=text, name=facts.name))
        else:
            self._report.write(use.node, self._in_place(use.node, text))

    def _replaced(self, use: Use, plan: _Plan, facts: Local) -> str:
        if not facts.path:
            return f"{use.chain.rpartition('.')[0]}.{use.name.ours.rpartition('.')[2]}"
        if not facts.is_module:
            root, dot, rest = use.chain.partition(".")
            return f"{plan.new or root}{dot}{rest}"
        return self._text(use, plan)

    @staticmethod
    def _in_place(node: cst.BaseExpression, text: str) -> cst.BaseExpression:
        """The chain `text` with the parentheses of `node`."""
        assert isinstance(node, cst.Name | cst.Attribute)
        return expression(text).with_changes(lpar=node.lpar, rpar=node.rpar)

    def _stays(self, node: cst.CSTNode, name: Name) -> None:
        if name.advice:
            mark = Mark.NOTE if name.is_synchronous else Mark.HAND
            self._report.add(node, name.path, name.advice, mark)

    def _string(self, node: cst.SimpleString, uses: list[tuple[Use, _Plan, Local]]) -> None:
        """Change the names in a string that is code."""
        text = text_of(node)
        for use, plan, facts in uses:
            if use.name.ours:
                text = _replace_chain(text, use.chain, self._replaced(use, plan, facts))
        if text != text_of(node):
            quote = node.prefix + node.quote
            self._report.write(node, node.with_changes(value=f"{quote}{text}{node.quote}"))

    # --- statements ---

    def _statement(self, statement: cst.Import | cst.ImportFrom) -> None:
        if isinstance(statement.names, cst.ImportStar):
            assert isinstance(statement, cst.ImportFrom)
            if statement.module and not statement.relative and _is_theirs(dotted(statement.module)):
                self._report.hand(statement, _STAR)
            return
        new = self._import(statement) if isinstance(statement, cst.Import) else self._import_from(statement)
        if new is not None and [self._source.code(each) for each in new] != [self._source.code(statement)]:
            self._report.replace_statement(statement, new)

    def _import(self, statement: cst.Import) -> list[cst.BaseSmallStatement] | None:
        stay: list[cst.ImportAlias] = []
        added: list[cst.BaseSmallStatement] = []
        for alias in statement.names:
            path = dotted(alias.name)
            local = dotted(alias.asname.name) if alias.asname else path.partition(".")[0]
            plan = self._plans.get((local, self._bound(alias)))
            if not _is_theirs(path) or local in self._kept:
                stay.append(alias)
                continue
            target = self._names.decided(path)
            if plan is None and target.ours:
                # It is imported, and used nowhere.
                plan = _Plan(self._new_name(local, self._bound(alias), target.ours), target.ours, stays=False)
            if plan is None or plan.new is None:
                if plan is None or self._is_needed(alias, local, plan):
                    stay.append(alias)
                    self._stays(statement, target)
                elif target.ours:
                    added.append(_import_of(target.ours))
                added += self._extras(plan, statement)
                continue
            new_path = target.ours or plan.ours
            if new_path.startswith(_GRIDFS):
                added.append(_from_import("motorlite", "gridfs", plan.new))
            else:
                asname = None if plan.new == "motorlite" else plan.new
                changed = cst.ImportAlias(expression(new_path), _as(asname))
                if not any(changed.deep_equals(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in stay):
                    stay.append(changed)
            added += [_import_of(module) for module in plan.extras if module == _GRIDFS]
        if not stay:
            return _distinct(added) or None
        names = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in stay]
        return [statement.with_changes(names=names), *_distinct(added)]

    def _is_needed(self, alias: cst.ImportAlias, local: str, plan: _Plan) -> bool:
        """Whether a use that stays needs this import of a module."""
        path = dotted(alias.name)
        if not plan.stays:
            return False
        uses = self._names.locals[local, self._bound(alias)].uses
        staying = [use.name.path for use in uses if not use.name.ours]
        is_part = any(each.startswith(f"{path}.") or each == path for each in staying)
        return is_part or path == self._bound(alias)

    def _extras(self, plan: _Plan | None, statement: cst.CSTNode) -> list[cst.BaseSmallStatement]:
        """The imports that uses need which are written out, once in each block."""
        line = self._source.parent(statement)
        block = self._source.parent(line) if line else None
        found: list[cst.BaseSmallStatement] = []
        for module in plan.extras if plan else ():
            if (module, block) not in self._added:
                self._added.add((module, block))
                found.append(_import_of(module))
        return found

    @staticmethod
    def _bound(alias: cst.ImportAlias) -> str:
        """What the local name of ``import a.b`` means: ``a``; of ``import a.b as c``: ``a.b``."""
        path = dotted(alias.name)
        return path if alias.asname else path.partition(".")[0]

    def _import_from(self, statement: cst.ImportFrom) -> list[cst.BaseSmallStatement] | None:
        assert not isinstance(statement.names, cst.ImportStar)
        here = dotted(statement.module) if statement.module else ""
        groups: dict[str, list[cst.ImportAlias]] = {}
        added: list[cst.BaseSmallStatement] = []
        for alias in statement.names:
            own = dotted(alias.name)
            local = dotted(alias.asname.name) if alias.asname else own
            path = self._path_of(statement, here, own)
            name = self._names.decided(path) if path else None
            plan = self._plans.get((local, path))
            moves = name is not None and (
                bool(name.ours) or (plan is not None and not plan.stays and bool(plan.extras))
            )
            if name is None or not moves or local in self._kept:
                groups.setdefault(here, []).append(alias)
                if name is not None and local not in self._kept:
                    self._stays(statement, name)
                added += self._extras(plan, statement)
                continue
            if self._table.is_module(path):
                self._module_alias(alias, local, name, groups, added, here)
                continue
            module, _, new = name.ours.rpartition(".")
            module = module if _is_theirs(path) else here
            changed = self._renamed(alias, plan, local, new)
            groups.setdefault(module, []).append(changed)
        if (
            list(groups) == [here]
            and not added
            and all(a is b for a, b in zip(groups[here], statement.names, strict=True))
        ):
            return None
        return [*self._grouped(statement, here, groups), *_distinct(added)]

    def _path_of(self, statement: cst.ImportFrom, here: str, own: str) -> str:
        """What an imported name means, if it is of these packages, or Motor's class from another module."""
        if not statement.relative and _is_theirs(here):
            return f"{here}.{own}"
        dots = "." * len(statement.relative)
        path = f"{dots}{here}.{own}" if here else f"{dots}{own}"
        return path if self._table.target(f"x.{own}") and not here.startswith("motorlite") else ""

    def _module_alias(
        self,
        alias: cst.ImportAlias,
        local: str,
        name: Name,
        groups: dict[str, list[cst.ImportAlias]],
        added: list[cst.BaseSmallStatement],
        here: str,
    ) -> None:
        """``from pymongo import errors``."""
        plan = self._plans.get((local, name.path)) or _Plan(
            self._new_name(local, name.path, name.ours), name.ours, stays=False
        )
        if plan.new is None:
            if plan.stays or not plan.extras:
                groups.setdefault(here, []).append(alias)
        elif "." in name.ours:
            module, _, new = name.ours.rpartition(".")
            groups.setdefault(module, []).append(self._renamed(alias, plan, plan.new, new))
        else:
            added.append(_import_of(name.ours, None if plan.new == name.ours else plan.new))
        added += [_import_of(module) for module in plan.extras if plan.new is None or module == _GRIDFS]

    def _renamed(self, alias: cst.ImportAlias, plan: _Plan | None, local: str, new: str) -> cst.ImportAlias:
        """The alias with the new name; its local name stays where uses keep it."""
        own = dotted(alias.name)
        is_kept = local != own or new in self._taken or self._is_fixed(local)
        now = plan.new if plan and plan.new else (local if is_kept else new)
        if alias.asname is not None and local == own and now == new:
            # ``from a import B as B`` exports it.
            return alias.with_changes(name=cst.Name(new), asname=_as(new))
        if new == own and now == local:
            return alias
        if alias.asname is not None and now != new:
            return alias.with_changes(name=cst.Name(new))
        return alias.with_changes(name=cst.Name(new), asname=_as(None if now == new else now))

    def _grouped(
        self, statement: cst.ImportFrom, here: str, groups: dict[str, list[cst.ImportAlias]]
    ) -> list[cst.BaseSmallStatement]:
        found: list[cst.BaseSmallStatement] = []
        for module, aliases in groups.items():
            if found and _has_comment(statement, aliases):
                found.append(_with_names(_apart(statement, module), aliases))
            elif found:
                names = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in aliases]
                found.append(cst.ImportFrom(expression(module), names))
            else:
                first = statement if module == here else statement.with_changes(module=expression(module))
                found.append(_with_names(first, aliases))
        return found


def _has_comment(statement: cst.ImportFrom, aliases: list[cst.ImportAlias]) -> bool:
    """Whether a comment stands behind one of these names of the statement."""
    assert not isinstance(statement.names, cst.ImportStar)
    spaces = [each.comma.whitespace_after for each in aliases if isinstance(each.comma, cst.Comma)]
    if statement.rpar is not None and not all(isinstance(each.comma, cst.Comma) for each in aliases):
        spaces.append(statement.rpar.whitespace_before)
    return any(isinstance(each, cst.ParenthesizedWhitespace) and each.first_line.comment for each in spaces)


def _apart(statement: cst.ImportFrom, module: str) -> cst.ImportFrom:
    """A statement for some of the names; what stands above the first name stays with the others."""
    new, space = statement.with_changes(module=expression(module)), statement.lpar and statement.lpar.whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace):
        space = space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
        return new.with_changes(lpar=cst.LeftParen(space))
    return new


def _with_names(statement: cst.ImportFrom, aliases: list[cst.ImportAlias]) -> cst.ImportFrom:
    """The statement with fewer names, or other ones; the end of the list looks as it did."""
    assert not isinstance(statement.names, cst.ImportStar)
    names, last = list(aliases), statement.names[-1]
    if statement.lpar is None:
        names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return statement.with_changes(names=names)
    comma, end = names[-1].comma, _after(last, statement)
    if not isinstance(comma, cst.Comma) or names[-1].name.deep_equals(last.name):
        return statement.with_changes(names=names)
    space = comma.whitespace_after
    if isinstance(space, cst.ParenthesizedWhitespace) and isinstance(end, cst.ParenthesizedWhitespace):
        space = space.with_changes(last_line=end.last_line, indent=end.indent)
    names[-1] = names[-1].with_changes(comma=comma.with_changes(whitespace_after=space))
    rpar = statement.rpar
    if rpar is not None and not isinstance(last.comma, cst.Comma):
        rpar = rpar.with_changes(whitespace_before=cst.SimpleWhitespace(""))
    return statement.with_changes(names=names, rpar=rpar)


def _after(last: cst.ImportAlias, statement: cst.ImportFrom) -> cst.BaseParenthesizableWhitespace | None:
    """What stands between the last name and the parenthesis."""
    if isinstance(last.comma, cst.Comma):
        return last.comma.whitespace_after
    return statement.rpar.whitespace_before if statement.rpar else None


def _is_theirs(path: str) -> bool:
    return path.partition(".")[0] in PACKAGES


def _as(name: str | None) -> cst.AsName | None:
    return None if name is None else cst.AsName(cst.Name(name))


def _import_of(module: str, asname: str | None = None) -> cst.Import:
    return cst.Import([cst.ImportAlias(expression(module), _as(asname))])


def _from_import(module: str, name: str, local: str) -> cst.ImportFrom:
    return cst.ImportFrom(expression(module), [cst.ImportAlias(cst.Name(name), _as(None if name == local else local))])


def _distinct(statements: Iterable[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    found: list[cst.BaseSmallStatement] = []
    for each in statements:
        if not any(each.deep_equals(other) for other in found):
            found.append(each)
    return found


def _replace_chain(text: str, chain: str, new: str) -> str:
    """Replace whole chains in `text`: not the end of another one, nor a part of a word."""
    pieces: list[str] = []
    rest = text
    while chain in rest:
        before, _, after = rest.partition(chain)
        left, right = (pieces[-1] + before if pieces else before)[-1:], after[:1]
        is_whole = not (left.isalnum() or left in ("_", ".")) or not left
        is_whole = is_whole and not (right.isalnum() or right == "_")
        pieces += [before, new if is_whole else chain]
        rest = after
    return "".join([*pieces, rest])
