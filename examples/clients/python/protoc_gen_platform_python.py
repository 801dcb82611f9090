"""A plugin for buf: messages, their types, and gRPC stubs for Python, made by the compiler that grpcio-tools carries.

That compiler has its Python generators built in, which is why there is no plugin of theirs to call. And Python's
module names come from the paths of the files: `platform/` would hide the standard library's module of that name, so
the stubs go into `platform_sdk.v1` instead of `platform.sdk.v1`. The names on the wire stay as they are.
"""

import sys
import tempfile
from pathlib import Path

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


def module_path(path: str) -> str:
    return path.replace("platform/sdk/", "platform_sdk/", 1)


def generate(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    for file in request.proto_file:
        file.name = module_path(file.name)
        file.dependency[:] = map(module_path, file.dependency)
    response = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    with tempfile.TemporaryDirectory() as folder:
        descriptors = Path(folder, "descriptors.binpb")
        descriptors.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out = Path(folder, "out")
        out.mkdir()
        generators = [f"--{name}_out={out}" for name in ("python", "pyi", "grpc_python")]
        names = [module_path(name) for name in request.file_to_generate]
        if protoc.main(["protoc", f"--descriptor_set_in={descriptors}", *generators, *names]) != 0:
            response.error = "the compiler failed"
            return response
        for path in sorted(out.rglob("*.py*")):
            response.file.add(name=str(path.relative_to(out)), content=path.read_text())
    return response


if __name__ == "__main__":
    answer = generate(CodeGeneratorRequest.FromString(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(answer.SerializeToString())
