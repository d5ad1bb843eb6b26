"""How compiled code sees the world: one pointer to a list of addresses, one for each table and column.

Handed over as numba arrays, every call would carry and reference-count forty arrays, which costs far more than the
work. Here `w` is a bare pointer, `w.first` loads an address and `w.first[r]` a value; a table's row is a numba record.
Only imported for the compiled kernel.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.np.numpy_support import from_dtype

from triplane.simulation.kernel import state

POINTER = ir.IntType(8).as_pointer()
ROWS = {"engines": state.Engine, "replicas": state.Replica, "pools": state.Pool, "client": state.Client}
FLOATS = {"arrival", "draw", "sent", "first", "finish", "due", "last", "seen_busy"}


class ColumnType(types.Type):
    """A pointer to values of one type."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(f"Column({element})")


class WorldType(types.Type):
    """A pointer to the addresses of a World's fields."""

    def __init__(self) -> None:
        super().__init__("World")


register_model(ColumnType)(models.OpaqueModel)
register_model(WorldType)(models.OpaqueModel)
WORLD = WorldType()


class NativeWorld:
    """A World's arrays by name, and their addresses."""

    def __init__(self, world: state.World) -> None:
        self.world = world
        self.addresses = np.array([np.asarray(array).ctypes.data for array in world], np.int64)
        self.address = int(self.addresses.ctypes.data)


@typeof_impl.register(NativeWorld)  # type: ignore[untyped-decorator]
def _typeof_world(_value: NativeWorld, _context: Any) -> WorldType:
    return WORLD


@unbox(WorldType)  # type: ignore[untyped-decorator]
def _unbox_world(_type: Any, obj: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(obj, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, POINTER))


def element_of(field: str) -> Any:
    """The numba type of one value of a World's field."""
    if field in ROWS:
        return from_dtype(state.dtype_of(ROWS[field]))
    return types.float64 if field in FLOATS else types.int64


@infer_getattr
class _WorldFields(AttributeTemplate):  # type: ignore[misc]
    key = WorldType

    def generic_resolve(self, _typ: Any, attr: str) -> ColumnType | None:
        return ColumnType(element_of(attr)) if attr in state.World._fields else None


@lower_getattr_generic(WorldType)  # type: ignore[untyped-decorator]
def _load_field(_context: Any, builder: Any, _typ: Any, value: Any, attr: str) -> Any:
    addresses = builder.bitcast(value, POINTER.as_pointer())
    at = ir.Constant(ir.IntType(64), state.World._fields.index(attr))
    return builder.load(builder.gep(addresses, [at]))


@infer_global(operator.getitem)
class _ColumnGet(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, _kws: Any) -> Any:
        if isinstance(args[0], ColumnType) and isinstance(args[1], types.Integer):
            return signature(args[0].element, args[0], types.int64)
        return None


@infer_global(operator.setitem)
class _ColumnSet(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, _kws: Any) -> Any:
        if isinstance(args[0], ColumnType) and isinstance(args[1], types.Integer):
            return signature(types.void, args[0], types.int64, args[0].element)
        return None


def _address(context: Any, builder: Any, column: Any, element: Any, index: Any) -> Any:
    """Pointer to one value."""
    kind = context.get_data_type(element)
    return builder.gep(builder.bitcast(column, kind.as_pointer()), [index])


@lower_builtin(operator.getitem, ColumnType, types.Integer)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    element = sig.args[0].element
    pointer = _address(context, builder, args[0], element, args[1])
    return pointer if isinstance(element, types.Record) else builder.load(pointer)


@lower_builtin(operator.setitem, ColumnType, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _address(context, builder, args[0], sig.args[0].element, args[1]))
    return context.get_dummy_value()
