"""Tink itself, for streams of the same format: `vectors` prints some, `encrypt` and `decrypt` filter standard input.

Needs the package tink.
"""
import base64
import hashlib
import io
import json
import sys

import tink
from tink import secret_key_access, streaming_aead
from tink.proto import aes_gcm_hkdf_streaming_pb2, common_pb2, tink_pb2

SEGMENT_SIZES = {"AES256_GCM_HKDF_1MB": 1_048_576, "AES256_GCM_HKDF_4KB": 4_096}


def primitive(aead: str, key: bytes) -> streaming_aead.StreamingAead:
    """The primitive of Tink's template `aead` with this key of 32 bytes."""
    params = aes_gcm_hkdf_streaming_pb2.AesGcmHkdfStreamingParams(
        ciphertext_segment_size=SEGMENT_SIZES[aead], derived_key_size=32, hkdf_hash_type=common_pb2.SHA256
    )
    value = aes_gcm_hkdf_streaming_pb2.AesGcmHkdfStreamingKey(version=0, key_value=key, params=params)
    keyset = tink_pb2.Keyset(primary_key_id=1)
    entry = keyset.key.add()
    entry.key_id, entry.status, entry.output_prefix_type = 1, tink_pb2.ENABLED, tink_pb2.RAW
    entry.key_data.type_url = "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey"
    entry.key_data.value = value.SerializeToString()
    entry.key_data.key_material_type = tink_pb2.KeyData.SYMMETRIC
    handle = tink.proto_keyset_format.parse(keyset.SerializeToString(), secret_key_access.TOKEN)
    return handle.primitive(streaming_aead.StreamingAead)


class Kept(io.BytesIO):
    """Keeps what was written to it when it is closed."""

    kept = b""

    def close(self) -> None:
        self.kept = self.getvalue()
        super().close()


def encrypt(aead: str, key: bytes, associated_data: bytes, plaintext: bytes) -> bytes:
    out = Kept()
    with primitive(aead, key).new_encrypting_stream(out, associated_data) as stream:
        stream.write(plaintext)
    return out.kept


def decrypt(aead: str, key: bytes, associated_data: bytes, ciphertext: bytes) -> bytes:
    with primitive(aead, key).new_decrypting_stream(io.BytesIO(ciphertext), associated_data) as stream:
        return stream.read()


def vectors() -> list[dict[str, object]]:
    """Small streams whole; of large ones salt, nonce prefix and digest, which make them again."""
    made = []
    for aead, size in SEGMENT_SIZES.items():
        first = size - 56
        for length in [0, 1, 100, first - 1, first, first + 1, first + size - 16, first + size - 15]:
            key = hashlib.sha256(f"{aead} {length}".encode()).digest()
            associated_data = b"" if length == 1 else f"bound to {length}".encode()
            plaintext = bytes(i % 251 for i in range(length))
            ciphertext = encrypt(aead, key, associated_data, plaintext)
            vector: dict[str, object] = {
                "aead": aead,
                "key": key.hex(),
                "associated_data": associated_data.hex(),
                "plaintext_size": length,
                "salt": ciphertext[1:33].hex(),
                "nonce_prefix": ciphertext[33:40].hex(),
                "ciphertext_sha256": hashlib.sha256(ciphertext).hexdigest(),
            }
            if len(ciphertext) < 5_000:
                vector["ciphertext"] = base64.b64encode(ciphertext).decode()
            made.append(vector)
    return made


if __name__ == "__main__":
    streaming_aead.register()
    command, *arguments = sys.argv[1:]
    if command == "vectors":
        note = "Made by Tink. Byte i of a plaintext is i mod 251. AES-GCM-HKDF streaming, SHA-256, raw output."
        json.dump({"note": note, "vectors": vectors()}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        work = {"encrypt": encrypt, "decrypt": decrypt}[command]
        name, key_hex, associated_data_hex = arguments
        data = sys.stdin.buffer.read()
        sys.stdout.buffer.write(work(name, bytes.fromhex(key_hex), bytes.fromhex(associated_data_hex), data))
