"""A plugin for buf: the contract's messages and their types, made by the compiler that grpcio-tools carries.

That compiler has its Python generators built in, which is why there is no plugin of theirs to call. Python's module
names come from the paths of the files, and `platform/` would hide the standard library's module of that name: the
messages go into the packages `svc_platform_client.v1` and `svc_platform_client.bulk_v1`, of which the plugin's
parameter names one by its folder among the definitions. Names on the wire stay as they are.

Rules and routes (`buf.validate`, `google.api`) are the service's to check; they are left out, so that the package
brings no definitions that another one may bring too. So is the session service, which is not part of the public
contract.
"""

import sys
import tempfile
from pathlib import Path

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

# Packages of the modules, by the folders of the definitions.
PACKAGES = {"platform/sdk/v1": "svc_platform_client/v1", "platform/bulk/v1": "svc_platform_client/bulk_v1"}


def module_path(path: str) -> str:
    folder, name = path.rsplit("/", 1)
    return f"{PACKAGES[folder]}/{name}"


def is_public(path: str) -> bool:
    return path.rsplit("/", 1)[0] in PACKAGES and not path.endswith("/session.proto")


def contract_file(file: FileDescriptorProto) -> FileDescriptorProto:
    """The file by its new name, with nothing from outside the contract: options of others are unknown fields here."""
    made = FileDescriptorProto()
    made.CopyFrom(file)
    made.DiscardUnknownFields()
    made.name = module_path(file.name)
    del made.dependency[:], made.public_dependency[:], made.weak_dependency[:]
    made.dependency.extend(module_path(path) for path in file.dependency if is_public(path))
    return made


def package_source(files: list[FileDescriptorProto], package: str) -> str:
    """`__init__.py`: every name of every file, from one place."""
    lines = ['"""The contract\'s messages and enumerations. Generated."""', ""]
    for file in sorted(files, key=lambda file: file.name):
        module = file.name.removeprefix(f"{package}/").removesuffix(".proto") + "_pb2"
        names = [message.name for message in file.message_type]
        for enum in file.enum_type:
            names += [enum.name, *(value.name for value in enum.value)]
        lines += [f"from .{module} import {name} as {name}" for name in sorted(names)]
    return "\n".join(lines) + "\n"


def generate(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    package = PACKAGES[request.parameter]
    files = [contract_file(file) for file in request.proto_file if is_public(file.name)]
    own = [file for file in files if file.name.startswith(f"{package}/")]
    response = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    with tempfile.TemporaryDirectory() as folder:
        descriptors = Path(folder, "descriptors.binpb")
        descriptors.write_bytes(FileDescriptorSet(file=files).SerializeToString())
        out = Path(folder, "out")
        out.mkdir()
        generators = [f"--{name}_out={out}" for name in ("python", "pyi")]
        names = [file.name for file in own]
        if protoc.main(["protoc", f"--descriptor_set_in={descriptors}", *generators, *names]) != 0:
            response.error = "the compiler failed"
            return response
        for path in sorted((out / package).glob("*.py*")):
            response.file.add(name=path.name, content=path.read_text())
    response.file.add(name="__init__.py", content=package_source(own, package))
    return response


if __name__ == "__main__":
    answer = generate(CodeGeneratorRequest.FromString(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(answer.SerializeToString())
