"""MindIR files that hold the operator: loading them, and giving them another library path.

MindSpore writes the absolute path of the library into the file, resolves it when it loads the file, and takes no other
name for a library. So a file is read with the path of this machine put in its place.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from mindspore import context, load
from mindspore._c_expression import _decrypt, _is_cipher_file
from mindspore.train.mind_ir_pb2 import ModelProto

from ms_convtanh import _library
from ms_convtanh._custom import check_library_path, register

_LIBRARY = r"/(?:[^:]*/)?libms_convtanh\.so"
_FUNCTION = re.compile(rf"({_LIBRARY})(?=:FusedConvTanh(Backward)?$)")
_NO_KEY = b"none"  # MindSpore takes the content from a function only together with a key


@dataclass(frozen=True)
class Relocation:
    """What relocate_mindir did.

    Attributes:
        file: The file that it wrote.
        operators: How many operators of this package the file has. 0: none, and the file was written as it was.
        before: The paths of the library that the file had.
        library: The path that it has now.
    """

    file: str
    operators: int
    before: tuple[str, ...]
    library: str


def load_mindir(
    file_name: str | os.PathLike[str], *, dec_key: bytes | None = None, dec_mode: str | Callable[..., bytes] = "AES-GCM"
) -> Any:
    """`mindspore.load` for MindIR files that were exported where this package was in another place.

    The file stays as it is. Files without the operator load as well.

    Args:
        file_name: Path of the file, which ends in .mindir.
        dec_key: The key of an encrypted file, as mindspore.load.
        dec_mode: How it is encrypted, as mindspore.load: "AES-GCM", "AES-CBC", "SM4-CBC" or a function of path and key.

    Returns:
        The graph, for mindspore.nn.GraphCell.

    Raises:
        ValueError: The file is not there or not MindIR; or it is encrypted, and dec_key is missing or wrong, or its
            weights are in files beside it.
        OSError: The weights are in files beside it (as above 1 GB), and its folder cannot be written.
        RuntimeError: MindSpore cannot load the file, or cannot load the library from where it is; or the file was
            exported for CPUs, and the device target is another one.
    """
    path = Path(file_name)
    _check_file(path, "load_mindir", dec_key is not None)
    if dec_key is None:
        content = path.read_bytes()
    elif callable(dec_mode):
        content = dec_mode(str(path), dec_key)
    else:
        content = _decrypt(str(path), dec_key, len(dec_key), dec_mode) or b""
    model = _parsed(content, path, "load_mindir")
    if _relocate(model, str(_library.PATH)):  # a file exported for Ascend names the operator only
        target = context.get_context("device_target")
        if target != "CPU":
            raise RuntimeError(
                f"load_mindir: the device target must be CPU, which {path} was exported for, got {target}"
            )
        check_library_path("load_mindir")
        register()
    content = model.SerializeToString()
    if not _has_files_beside(model):
        return load(str(path), dec_key=dec_key or _NO_KEY, dec_mode=lambda file, key: content)
    if dec_key is not None:
        raise ValueError(
            f"load_mindir: an encrypted model must be one file, got {path} with files of weights beside it"
        )
    with _beside(path, content) as file:  # MindSpore looks for the weights where the file is
        return load(str(file))


def relocate_mindir(
    file_name: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    library: str | os.PathLike[str] | None = None,
) -> Relocation:
    """Writes the library's path into a MindIR file, so that plain `mindspore.load` finds it.

    Args:
        file_name: Path of the file, which ends in .mindir.
        output: Path of the result; None replaces the file.
        library: The absolute path of libms_convtanh.so where the file will be loaded; None for that of this package.

    Returns:
        What was changed.

    Raises:
        ValueError: The file is not there, not MindIR or encrypted; library is not an absolute path of a
            libms_convtanh.so; or output is in another folder than weights that the file keeps beside itself.
        OSError: The result cannot be written.
    """
    path = Path(file_name)
    _check_file(path, "relocate_mindir", False)
    target = str(_library.PATH if library is None else library)
    if not re.fullmatch(_LIBRARY, target):
        raise ValueError(
            f"relocate_mindir: library must be an absolute path of libms_convtanh.so without a colon, got {target!r}"
        )
    model = _parsed(path.read_bytes(), path, "relocate_mindir")
    result = path if output is None else Path(output)
    if _has_files_beside(model) and result.resolve().parent != path.resolve().parent:
        raise ValueError(
            f"relocate_mindir: output must be in the folder of {path}, which has files of weights beside it, "
            f"got {result}"
        )
    before = _relocate(model, target)
    _write(result, model.SerializeToString())
    return Relocation(str(result), len(before), tuple(dict.fromkeys(before)), target)


def _check_file(path: Path, caller: str, is_encrypted: bool) -> None:
    if path.suffix != ".mindir" or not path.is_file():
        raise ValueError(f"{caller}: file_name must be the path of a .mindir file, got {str(path)!r}")
    if not is_encrypted and _is_cipher_file(str(path)):
        raise ValueError(f"{caller}: {path} is encrypted; load_mindir(path, dec_key=..., dec_mode=...) loads it")


def _parsed(content: bytes, path: Path, caller: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        content = b""
    if not content or not model.HasField("graph"):
        raise ValueError(f"{caller}: {path} is not a MindIR file, or the key is not the one that it was encrypted with")
    return model


def _has_files_beside(model: ModelProto) -> bool:
    """Whether the weights are in files beside the model's, as MindSpore writes large models."""
    return any(parameter.HasField("external_data") for parameter in model.graph.parameter)


def _relocate(model: ModelProto, library: str) -> list[str]:
    """Puts another path into all operators of this package. Returns the old ones, one for each operator."""
    before = []
    for primitive in model.primitives:
        for attribute in primitive.attribute:
            text = attribute.s.decode(errors="surrogateescape")
            found = _FUNCTION.search(text)
            if found:
                attribute.s = (text[: found.start()] + library + text[found.end() :]).encode(errors="surrogateescape")
                if attribute.name == "func_name":
                    before.append(found[1])
    return before


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file in the folder of the path.

    Raises:
        OSError: The folder cannot be written.
    """
    descriptor, name = tempfile.mkstemp(suffix=".mindir", prefix=".ms_convtanh-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing: a reader never sees half a file."""
    with _beside(path, content) as written:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        written.chmod(mode)
        written.replace(path)
