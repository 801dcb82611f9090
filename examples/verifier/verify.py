#!/usr/bin/env python3
"""Checks receipts and packs of an evidence ledger, with nothing but Python's standard library.

    verify.py receipt FILE... --key VKEY[@SIZE] [--key ...] [--witness VKEY ... [--quorum N]]
    verify.py range FILE... --key VKEY[@SIZE] [--key ...] [--records FILE] [--witness VKEY ... [--quorum N]]
    verify.py pack FILE... --key VKEY[@SIZE] [--key ...] [--witness VKEY ... [--quorum N]]

Written from docs/reference/ledger-formats.md and what it names: RFC 6962, 8032, 8785, 9162; C2SP signed-note,
tlog-checkpoint, tlog-proof, tlog-cosignature. Prints one JSON object for each file. The exit code is 0 only if all of
them hold. Keys come from a source that you trust, never from the file. The answer around a receipt is not compared.
"""

import argparse
import base64
import binascii
import datetime
import decimal
import hashlib
import hmac
import json
import re
import sys
import time
import unicodedata

MAX_NOTE_BYTES = 256 * 1024
MAX_SIGNATURES = 64
MAX_PATH = 53
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_KEPT = 100_000
MAX_SAFE = 2**53 - 1
MAX_DEPTH = 32
CLOCK_SKEW_SECONDS = 300


class Refused(Exception):
    """What does not hold."""


def require(holds, problem):
    if not holds:
        raise Refused(problem)


# Ed25519, RFC 8032 section 5.1 and 6

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def point_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def point_multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = point_add(result, point)
        point = point_add(point, point)
        scalar >>= 1
    return result


def recover_x(y, sign):
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if x2 == 0:
        return None if sign else 0
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P != 0:
        x = x * SQRT_M1 % P
    if (x * x - x2) % P != 0:
        return None
    return P - x if (x & 1) != sign else x


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def point_compress(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


def point_decompress(encoded):
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    x = recover_x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def ed25519_verify(public_key, message, signature):
    point = point_decompress(public_key)
    if len(signature) != 64 or point is None:
        return False
    s = int.from_bytes(signature[32:], "little")
    if s >= L:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    h = int.from_bytes(digest, "little") % L
    negative = (P - point[0], point[1], 1, P - point[3])
    return point_compress(point_add(point_multiply(s, BASE), point_multiply(h, negative))) == signature[:32]


# Texts of which there is one for each value

def parse_base64(text):
    """Bytes of padded standard base64 (RFC 4648 section 4); None for any text that is not the only one of its bytes."""
    try:
        decoded = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        return None
    return decoded if base64.b64encode(decoded).decode("ascii") == text else None


def parse_decimal(text):
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text, re.ASCII):
        return None
    number = int(text)
    return number if number <= MAX_SAFE else None


def is_moment(text):
    """RFC 3339 with milliseconds, in UTC: only then do texts compare as times do."""
    if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text, re.ASCII):
        return False
    try:
        # Python's calendar begins with the year 1; the year 0 is a leap year like 2000.
        year = text[:4] if text[:4] != "0000" else "2000"
        datetime.datetime.strptime(year + text[4:], "%Y-%m-%dT%H:%M:%S.%fZ")
        return int(text[17:19]) < 60
    except ValueError:
        return False


def is_well_formed(text):
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def parse_json(text):
    """The value, its numbers as the doubles that RFC 8785 takes them for."""

    def refuse_constant(_):
        raise ValueError("not JSON")

    try:
        return json.loads(text, parse_int=float, parse_float=float, parse_constant=refuse_constant)
    except (ValueError, RecursionError, OverflowError) as error:
        raise Refused("is not JSON") from error


def canonical_number(value):
    """ECMAScript's Number::toString, which RFC 8785 section 3.2.2.3 asks for."""
    if value in (float("inf"), float("-inf")) or value != value:
        raise Refused("holds a number that is not finite")
    if value == 0:
        return "0"
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    count, point = len(text), len(text) + exponent
    if count <= point <= 21:
        text += "0" * (point - count)
    elif 0 < point <= 21:
        text = text[:point] + "." + text[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + text
    else:
        power = point - 1
        text = text[0] + ("." + text[1:] if count > 1 else "") + "e" + ("+" if power > 0 else "-") + str(abs(power))
    return ("-" if sign else "") + text


ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def canonical_string(text):
    require(is_well_formed(text) and "\0" not in text, "holds text that is not well-formed, or U+0000")
    return '"' + "".join(ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical(value, depth=0):
    """RFC 8785, of at most 32 levels, without U+0000."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return canonical_number(value)
    if isinstance(value, str):
        return canonical_string(value)
    require(depth < MAX_DEPTH, "is nested too deep")
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, depth + 1) for item in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(canonical_string(name) + ":" + canonical(value[name], depth + 1) for name in names) + "}"


def parse_canonical(text):
    value = parse_json(text)
    require(canonical(value) == text, "is not canonical JSON")
    return value


def as_count(value):
    """A number from 0 to 2^53 - 1 without a fraction; None for anything else."""
    if not isinstance(value, float) or not value.is_integer() or not 0 <= value <= MAX_SAFE:
        return None
    return int(value)


# Trees, RFC 6962 section 2.1

def leaf_hash(leaf):
    return hashlib.sha256(b"\0" + leaf).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def leads_to_root(leaf, index, size, root, path):
    """RFC 9162 section 2.1.3.2."""
    if index >= size:
        return False
    node, last, value = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            value = node_hash(sibling, value)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            value = node_hash(value, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and value == root


def root_of_leaves(leaves, size, nodes):
    """Root of the leaves, by index, and of the subtrees between them, from left to right."""
    rest = iter(nodes)

    def walk(begin, end, within):
        if not within:
            return next(rest)
        if end - begin == 1:
            return leaves[begin]
        middle = begin + (1 << ((end - begin - 1).bit_length() - 1))
        left = walk(begin, middle, [index for index in within if index < middle])
        return node_hash(left, walk(middle, end, [index for index in within if index >= middle]))

    try:
        root = walk(0, size, sorted(leaves))
    except StopIteration as error:
        raise Refused("a node is missing") from error
    require(next(rest, None) is None, "a node is left over")
    return root


class GrowingTree:
    """Grows from left to right by leaves and whole subtrees."""

    def __init__(self):
        self.size = 0
        self.roots = []

    def append(self, value, height=0):
        self.size += 1 << height
        while self.roots and self.roots[-1][0] == height:
            value = node_hash(self.roots.pop()[1], value)
            height += 1
        self.roots.append((height, value))

    def root(self):
        if not self.roots:
            return hashlib.sha256(b"").digest()
        value = self.roots[-1][1]
        for _, left in reversed(self.roots[:-1]):
            value = node_hash(left, value)
        return value


def heights_between(begin, end):
    """Heights of the largest complete subtrees that cover the leaves from begin up to and without end."""
    while begin < end:
        height = 0
        while begin % (1 << (height + 1)) == 0 and begin + (1 << (height + 1)) <= end:
            height += 1
        yield height
        begin += 1 << height


# Notes, checkpoints, keys

def is_key_name(name):
    def is_bad(character):
        return character in "+\ufeff" or character.isspace() or unicodedata.category(character) == "Cc"

    return name != "" and is_well_formed(name) and not any(map(is_bad, name))


class Key:
    """A verifier key of C2SP signed-note: type 1 signs checkpoints, type 4 cosigns them."""

    def __init__(self, vkey, key_type):
        match = re.fullmatch(r"([^+]+)\+([0-9a-f]{8})\+(.+)", vkey, re.DOTALL)
        require(match is not None, "a key is no verifier key")
        self.name, self.key_id, encoded = match.groups()
        data = parse_base64(encoded)
        require(data is not None and len(data) == 33 and data[0] == key_type, "a key is of another type")
        require(is_key_name(self.name), "a key's name is malformed")
        digest = hashlib.sha256(self.name.encode() + b"\n" + data).digest()
        require(digest[:4].hex() == self.key_id, "a key's id is not its own")
        self.public_key = data[1:]
        self.max_size = None

    def signatures(self, note):
        return [sig for name, key_id, sig in note.signatures if name == self.name and key_id == self.key_id]


def trusted_key(text):
    """VKEY, or VKEY@SIZE for one that was retired."""
    match = re.fullmatch(r"(.*)@([0-9]+)", text, re.DOTALL | re.ASCII)
    key = Key(match.group(1) if match else text, 1)
    if match:
        key.max_size = parse_decimal(match.group(2))
        require(key.max_size is not None, "the size behind a key is malformed")
    return key


class Note:
    """C2SP signed-note."""

    def __init__(self, note):
        require(is_well_formed(note), "the note is not well-formed")
        require(len(note.encode()) <= MAX_NOTE_BYTES, "the note is too large")
        require(not any(c < " " and c != "\n" for c in note), "the note holds control characters")
        end = note.rfind("\n\n")
        require(end >= 0 and note.endswith("\n") and end + 2 < len(note), "the note has no signatures")
        self.text = note[: end + 1]
        lines = note[end + 2 : -1].split("\n")
        require(len(lines) <= MAX_SIGNATURES, "the note has too many signatures")
        self.signatures = [self.signature(line) for line in lines]

    @staticmethod
    def signature(line):
        parts = line.split(" ")
        data = parse_base64(parts[2]) if len(parts) == 3 else None
        good = data is not None and len(data) > 4 and parts[0] == "\u2014" and is_key_name(parts[1])
        require(good, "a signature line is malformed")
        return parts[1], data[:4].hex(), data[4:]


class Checkpoint:
    """C2SP tlog-checkpoint: origin, size and root, and lines that are not read here."""

    def __init__(self, note):
        self.note = Note(note)
        lines = self.note.text.split("\n")[:-1]
        require(len(lines) >= 3 and lines[0] != "" and "" not in lines[3:], "the checkpoint is malformed")
        self.origin, self.size, self.root = lines[0], parse_decimal(lines[1]), parse_base64(lines[2])
        require(self.size is not None, "the checkpoint's size is malformed")
        require(self.root is not None and len(self.root) == 32, "the checkpoint's root is malformed")

    def open(self, keys):
        """The key that it is believed on: one that signed, and was not retired before this size."""
        signing = [key for key in keys if key.signatures(self.note)]
        require(signing, "the note is not signed by a trusted key")
        for key in signing:
            signature, *others = key.signatures(self.note)
            require(not others, "a trusted key signed twice")
            good = ed25519_verify(key.public_key, self.note.text.encode(), signature)
            require(good, "the signature of a trusted key does not verify")
        believed = [key for key in signing if key.max_size is None or self.size <= key.max_size]
        require(signing[0].name == self.origin, "the checkpoint is of another log")
        require(believed, "the key was retired before the tree had this size")
        require(believed[0].name == self.origin, "the checkpoint is of another log")
        return believed[0]

    def cosigned(self, witnesses, quorum, now):
        """Names of the witnesses that cosigned (C2SP tlog-cosignature); at least so many as the quorum."""
        names = []
        for key in witnesses:
            own = key.signatures(self.note)
            for signature in own:
                seconds = int.from_bytes(signature[:8], "big")
                message = f"cosignature/v1\ntime {seconds}\n{self.note.text}".encode()
                good = 0 < seconds <= MAX_SAFE and ed25519_verify(key.public_key, message, signature[8:])
                require(good, f"the cosignature of {key.name} does not verify")
                require(seconds <= now + CLOCK_SKEW_SECONDS, f"the cosignature of {key.name} is of a time to come")
            if own:
                names.append(key.name)
        require(len(names) >= quorum, f"{len(names)} of the trusted witnesses cosigned, not {quorum}")
        return names


class Trust:
    def __init__(self, keys, witnesses, quorum):
        self.keys = [trusted_key(text) for text in keys]
        self.witnesses = [Key(text, 4) for text in witnesses]
        own = [key.public_key for key in self.witnesses]
        require(len(set(own)) == len(own), "a witness is named twice")
        self.quorum = len(own) if quorum is None else quorum
        require(quorum is None or 1 <= quorum <= len(own), "the quorum is not between 1 and the number of witnesses")

    def open(self, checkpoint):
        key = checkpoint.open(self.keys)
        return key, checkpoint.cosigned(self.witnesses, self.quorum, time.time())


# Leaves and records

def text(value):
    return isinstance(value, str)


LEAF_MEMBERS = {"commitment", "kind", "record_id", "recorded_at", "v"}
RECORD_TEXTS = {"kind", "log", "record_id", "recorded_at", "request_digest", "request_id", "route", "tenant_id"}
RECORD_OBJECTS = {"caller", "outcome", "request"}
CALLER_MEMBERS = {"auth_source", "principal_id", "subject"}
NEVER_ERASED = {"genesis", "erasure", "key_rotation", "anchor_adoption", "clock_acceptance", "hold_release"}


def read_leaf(data):
    try:
        leaf = parse_canonical(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error
    require(len(data) <= 65_535 and isinstance(leaf, dict), "is no leaf")
    require(set(leaf) - {"policy_revision"} == LEAF_MEMBERS and leaf["v"] == 1.0, "has other members than a leaf")
    require(not isinstance(leaf["v"], bool), "has other members than a leaf")
    texts = (leaf["kind"], leaf["record_id"], leaf["commitment"], leaf.get("policy_revision", ""))
    require(all(isinstance(text, str) for text in texts) and is_moment(leaf["recorded_at"]), "is no leaf")
    require(re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", leaf["commitment"]), "has no commitment")
    return leaf


def read_record(data):
    try:
        record = parse_canonical(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error
    require(isinstance(record, dict) and set(record) == RECORD_TEXTS | RECORD_OBJECTS, "has other members than a record")
    require(all(isinstance(record[name], str) for name in RECORD_TEXTS), "is no record")
    require(all(isinstance(record[name], dict) for name in RECORD_OBJECTS), "is no record")
    caller = record["caller"]
    require(set(caller) == CALLER_MEMBERS and all(isinstance(text, str) for text in caller.values()), "is no record")
    return record


def commitment(record, opening):
    """HMAC-SHA-256 under HKDF-SHA256 (RFC 5869) of the opening: no salt, one block."""
    pseudorandom = hmac.new(bytes(32), opening, "sha256").digest()
    key = hmac.new(pseudorandom, b"platform-ledger/v1/commitment" + b"\1", "sha256").digest()
    return "hmac-sha256:" + hmac.new(key, record, "sha256").hexdigest()


def open_record(leaf, opening, data):
    """The record, shown to be the one that the leaf commits to, and to say the same."""
    require(opening is not None and len(opening) == 32, "has no opening of 32 bytes")
    require(hmac.compare_digest(commitment(data, opening), leaf["commitment"]), "does not commit to its record")
    record = read_record(data)
    for member in ("record_id", "kind", "recorded_at"):
        require(record[member] == leaf[member], f"and its record differ in {member}")
    if record["kind"] == "decision" and "policy_revision" in record["outcome"]:
        revision = record["outcome"]["policy_revision"]
        require(text(revision) and revision == leaf.get("policy_revision"), "was decided by another policy")
    digest = "sha256:" + hashlib.sha256(canonical(record["request"]).encode()).hexdigest()
    require(record["request_digest"] == digest, "has another request than its digest")
    return record


# Receipts

POSITION = ("record_id", "log_origin", "leaf_index", "tree_size", "leaf_hash", "proof")
MATERIAL = ("leaf", "opening", "record")


def cbor(value):
    """Deterministic CBOR (RFC 8949 section 4.2.1) of what a COSE receipt consists of."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return cbor_head(0, value) if value >= 0 else cbor_head(1, -1 - value)
    if isinstance(value, str):
        return cbor_head(3, len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return cbor_head(2, len(value)) + value
    if isinstance(value, dict):
        return cbor_head(5, len(value)) + b"".join(cbor(part) for member in value.items() for part in member)
    return cbor_head(4, len(value)) + b"".join(map(cbor, value))


def cbor_head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    width = next(width for width in range(4) if number < 1 << (8 << width))
    return bytes([major << 5 | 24 + width]) + number.to_bytes(1 << width, "big")


def check_cose(given, index, path, checkpoint, key):
    """A COSE receipt (RFC 9942) of the same place. The signature of another key is ignored, as on a checkpoint."""
    require(given is not None, "the COSE receipt is not base64")
    protected = {1: -8, 4: bytes.fromhex(key.key_id), 15: {1: checkpoint.origin, 2: str(checkpoint.size)}, 395: 1}
    parts = [cbor(protected), {396: {-1: [cbor([checkpoint.size, index, path])]}}, None, given[-64:]]
    # The id of the key is behind the tag, the array, the heads of the header, and the algorithm.
    start = 2 + len(cbor_head(2, len(parts[0]))) + 5
    own = b"\xd2" + cbor(parts)
    rest = own[:start] + given[start : start + 4] + own[start + 4 :]
    require(given == rest, "the COSE receipt is not of this leaf and tree")
    signed = cbor(["Signature1", parts[0], b"", checkpoint.root])
    good = given != own or ed25519_verify(key.public_key, signed, parts[3])
    require(good, "the COSE receipt has a wrong signature by the trusted key")


def is_receipt(value):
    if not isinstance(value, dict):
        return False
    texts = ("record_id", "log_origin", "leaf_hash", "proof")
    numbers = [value.get(name) for name in ("leaf_index", "tree_size")]
    return (
        all(isinstance(value.get(name), str) for name in texts)
        and all(isinstance(n, float) and n.is_integer() and abs(n) <= MAX_SAFE for n in numbers)
        and all(name not in value or isinstance(value[name], str) for name in (*MATERIAL, "cose"))
    )


def member(of, name):
    return of.get(name) if isinstance(of, dict) else None


def find_receipt(value):
    holders = [member(value, name) for name in ("decision", "registration", "ingestion", "context")]
    candidates = [value, member(value, "receipt"), *(member(holder, "receipt") for holder in holders)]
    found = [candidate for candidate in candidates if is_receipt(candidate)]
    require(found, "the file holds no receipt")
    return found[0]


def find_receipts(value):
    """Of an answer to several questions of an enforcement point, or to its search, those of all of its parts."""
    for parts in (member(value, "evaluations"), member(member(value, "context"), "decisions")):
        if isinstance(parts, list):
            require(parts, "the file holds no receipt")
            return [find_receipt(part) for part in parts]
    return [find_receipt(value)]


def parse_proof(text):
    """C2SP tlog-proof v1: index, path, checkpoint."""
    require(is_well_formed(text) and len(text.encode()) <= MAX_NOTE_BYTES, "the proof is too large")
    head, found, checkpoint = text.partition("\n\n")
    require(found, "the proof has no checkpoint")
    lines = head.split("\n")
    require(lines.pop(0) == "c2sp.org/tlog-proof@v1", "the text is no tlog-proof")
    if lines and lines[0].startswith("extra "):
        require(parse_base64(lines.pop(0)[6:]) is not None, "the proof's extra is malformed")
    index = parse_decimal(lines[0][6:]) if lines and lines[0].startswith("index ") else None
    require(index is not None, "the proof's index is malformed")
    path = [parse_base64(line) for line in lines[1:]]
    require(len(path) <= MAX_PATH and all(h is not None and len(h) == 32 for h in path), "the proof's path is malformed")
    return index, path, Checkpoint(checkpoint)


def verify_receipt(file, trust):
    with open(file, "rb") as opened:
        try:
            value = parse_json(opened.read().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise Refused("is not UTF-8") from error
    proven = [check_receipt(receipt, trust) for receipt in find_receipts(value)]
    return proven[0] if len(proven) == 1 else {"parts": proven}


def check_receipt(receipt, trust):
    index, path, checkpoint = parse_proof(receipt["proof"])
    key, cosigned = trust.open(checkpoint)
    require(set(receipt) <= {*POSITION, *MATERIAL, "cose"}, "the receipt has members that no receipt has")
    hashed = parse_base64(receipt["leaf_hash"])
    require(hashed is not None and len(hashed) == 32, "the leaf_hash is malformed")
    require(leads_to_root(hashed, index, checkpoint.size, checkpoint.root, path), "the proof does not lead to the root")
    told = (receipt["log_origin"], receipt["leaf_index"], receipt["tree_size"])
    require(told == (checkpoint.origin, index, checkpoint.size), "the members are not what the proof shows")
    for trusted in trust.keys if "cose" in receipt else ():
        check_cose(parse_base64(receipt["cose"]), index, path, checkpoint, trusted)
    position = {"log": checkpoint.origin, "leaf_index": index, "tree_size": checkpoint.size, "key_id": key.key_id}
    position["witnesses"] = cosigned
    given = [name for name in MATERIAL if name in receipt]
    if not given:
        return {"proves": "position", **position}
    require(len(given) == len(MATERIAL), "the receipt has only a part of leaf, opening, record")
    leaf_bytes, opening, record_bytes = (parse_base64(receipt[name]) for name in MATERIAL)
    require(leaf_bytes is not None and record_bytes is not None, "a member is not base64")
    require(leaf_hash(leaf_bytes) == hashed, "the leaf_hash is not the leaf's")
    record = open_record(read_leaf(leaf_bytes), opening, record_bytes)
    same = record["record_id"] == receipt["record_id"] and record["log"] == receipt["log_origin"]
    require(same, "record and members do not name the same record")
    return {"proves": "record", **position, "record": json.loads(record_bytes)}


# Receipts of whole calls

RANGE = {"log_origin", "tree_size", "checkpoint", "nodes"}
LEAF = {"record_id", "leaf_index", "leaf_hash", "opening"}


def parse_hash(encoded, name):
    value = parse_base64(encoded) if text(encoded) else None
    require(value is not None and len(value) == 32, f"a value of {name} is malformed")
    return value


def read_range(receipt):
    require(isinstance(receipt, dict) and set(receipt) == RANGE, "the file holds no receipt of a whole call")
    good = text(receipt["log_origin"]) and text(receipt["checkpoint"]) and isinstance(receipt["nodes"], list)
    require(good and as_count(receipt["tree_size"]) is not None, "the receipt is malformed")
    return [parse_hash(node, "nodes") for node in receipt["nodes"]]


def read_leaves(items):
    """The leaves of answered items, by index."""
    require(isinstance(items, list) and all(isinstance(item, dict) for item in items), "the items are malformed")
    found = {}
    for item in items:
        answered = any(name in item for name in ("decision", "registration", "ingestion"))
        told = item.get("outcome") == "answered"
        require(answered == told == ("leaf" in item), "the leaves are not those of the answered items")
        if not answered:
            continue
        leaf = item["leaf"]
        require(isinstance(leaf, dict) and set(leaf) == LEAF and text(leaf["record_id"]), "a leaf is malformed")
        index = as_count(leaf["leaf_index"])
        require(index is not None, "a leaf_index is malformed")
        parse_hash(leaf["opening"], "opening")
        decision = item.get("decision", {"decision_id": leaf["record_id"]})
        same = isinstance(decision, dict) and decision.get("decision_id") == leaf["record_id"]
        require(same, "a leaf is another decision's")
        # Two records may have been sent under one key; a decision has none.
        require("decision" not in item or index not in found, "one decision answers two items")
        require(found.setdefault(index, leaf) == leaf, "two leaves stand in one place")
    return found


def verify_range(file, trust, records):
    """An answer to a bulk call that asked for one receipt; the texts of records, one a line, are opened with it."""
    with open(file, "rb") as opened:
        try:
            answer = parse_json(opened.read().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise Refused("is not UTF-8") from error
    require(isinstance(answer, dict), "is no answer")
    receipt = answer.get("receipt")
    nodes, leaves = read_range(receipt), read_leaves(answer.get("items"))
    checkpoint = Checkpoint(receipt["checkpoint"])
    key, cosigned = trust.open(checkpoint)
    told = (receipt["log_origin"], receipt["tree_size"])
    require(told == (checkpoint.origin, checkpoint.size), "the members are not what the checkpoint says")
    require(leaves and max(leaves) < checkpoint.size, "the tree has no such leaves")
    hashes = {index: parse_hash(leaf["leaf_hash"], "leaf_hash") for index, leaf in leaves.items()}
    require(root_of_leaves(hashes, checkpoint.size, nodes) == checkpoint.root, "the nodes do not lead to the root")
    by_id = {leaf["record_id"]: leaf for leaf in leaves.values()}
    for data in records:
        record = read_record(data)
        leaf = by_id.get(record["record_id"])
        require(leaf is not None, "a record is of no item")
        require(record["log"] == checkpoint.origin, "a record is of another log")
        opening = parse_base64(leaf["opening"])
        made = {"v": 1.0, "commitment": commitment(data, opening)}
        made.update({name: record[name] for name in ("kind", "record_id", "recorded_at")})
        if record["kind"] == "decision" and "policy_revision" in record["outcome"]:
            made["policy_revision"] = record["outcome"]["policy_revision"]
        made = canonical(made).encode()
        require(leaf_hash(made) == parse_base64(leaf["leaf_hash"]), "a record is not the one that its leaf commits to")
        open_record(read_leaf(made), opening, data)
    return {
        "proves": "records" if records else "positions",
        "log": checkpoint.origin,
        "tree_size": checkpoint.size,
        "key_id": key.key_id,
        "witnesses": cosigned,
        "leaves": len(leaves),
        "records": len(records),
    }


# Packs

def optional(check):
    return lambda value: value is None or check(value)


LINKED = ("artifact_digest", "cid", "decision_id")
FIELDS = (*LINKED, "principal", "on_behalf_of", "resource_id", "label")


def parse_selection(value):
    """(from, to, field, value): a time range, a field and its value, or both."""
    require(isinstance(value, dict) and value, "the selection is malformed")
    fields = [name for name in value if name not in ("from", "to")]
    ends = [name for name in value if name in ("from", "to")]
    good = len(fields) <= 1 and all(is_moment(value[name]) for name in ends)
    good = good and all(name in FIELDS and text(value[name]) and value[name] != "" for name in fields)
    # All that cites a decision belongs to it, of any time.
    require(good and not (fields == ["decision_id"] and ends), "the selection is malformed")
    field = fields[0] if fields else None
    return {"from": value.get("from"), "to": value.get("to"), "field": field, "value": value.get(field)}


LINES = {
    "header": {
        "format": lambda value: value == "evidence-pack/v1",
        "checkpoint": text,
        "made_at": text,
        "selection": lambda value: isinstance(value, dict),
        "tenant_id": text,
    },
    "policy": {"revision": text, "content": optional(text)},
    "entry": {
        "leaf_index": lambda value: as_count(value) is not None,
        "leaf": text,
        "gap": optional(lambda value: isinstance(value, list) and value and all(map(text, value))),
        "opening": optional(text),
        "record": optional(text),
        "erased": optional(lambda value: value is True),
    },
    "end": {"entries": lambda value: as_count(value) is not None, "sha256": text},
}


def parse_line(data):
    try:
        line = parse_canonical(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused("is not UTF-8") from error
    require(isinstance(line, dict) and text(line.get("type")) and line["type"] in LINES, "is no line of a pack")
    members = LINES[line["type"]]
    require(set(line) <= {"type", *members} and None not in line.values(), "has a member that its type has not")
    for name, check in members.items():
        require(check(line.get(name)), f"has no {name}, or a malformed one")
    return line


ALGORITHMS = (
    (32, "md5"),
    (40, "sha1 sha-1"),
    (56, "sha224 sha-224 sha2-224"),
    (64, "sha256 sha-256 sha2-256"),
    (96, "sha384 sha-384 sha2-384"),
    (128, "sha512 sha-512 sha2-512"),
    (64, "sha512-256 sha-512-256 sha2-512-256"),
    (56, "sha3-224"),
    (64, "sha3-256"),
    (96, "sha3-384"),
    (128, "sha3-512"),
    (128, "blake2b blake2b-512 blake2b512"),
    (64, "blake2b-256 blake2b256"),
    (64, "blake2s blake2s-256 blake2s256"),
    (64, "blake3"),
)
DIGESTS = {name: (names.split()[0], digits) for digits, names in ALGORITHMS for name in names.split()}


def canonical_digest(given):
    """The digest as lowercase hexadecimal, under the first name of its algorithm; any other text as it is."""
    name, _, value = given.partition(":")
    if name not in DIGESTS or value == "":
        return given
    name, digits = DIGESTS[name]
    if len(value) == digits and re.fullmatch(r"[0-9a-fA-F]+", value):
        return f"{name}:{value.lower()}"
    plain = value.rstrip("=")
    for alphabet in (b"+/", b"-_"):
        try:
            data = base64.b64decode(plain.encode("ascii") + b"=" * (-len(plain) % 4), alphabet, validate=True)
        except ValueError:
            continue
        if 2 * len(data) == digits and base64.b64encode(data, alphabet).rstrip(b"=").decode() == plain:
            return f"{name}:{data.hex()}"
    return f"{name}:{value}"


DIGITS, LOWER, UPPER = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BITCOIN = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
EMOJI = (
    "🚀🪐☄🛰🌌🌑🌒🌓🌔🌕🌖🌗🌘🌍🌏🌎🐉☀💻🖥💾💿😂❤😍🤣😊🙏💕😭😘👍😅👏😁🔥🥰💔💖💙😢🤔😆🙄💪😉☺👌🤗💜😔😎😇🌹🤦🎉💞✌✨🤷😱😌🌸🙌"
    "😋💗💚😏💛🙂💓🤩😄😀🖤😃💯🙈👇🎶😒🤭❣😜💋👀😪😑💥🙋😞😩😡🤪👊🥳😥🤤👉💃😳✋😚😝😴🌟😬🙃🍀🌷😻😓⭐✅🥺🌈😈🤘💦✔😣🏃💐☹🎊💘😠☝"
    "😕🌺🎂🌻😐🖕💝🙊😹🗣💫💀👑🎵🤞😛🔴😤🌼😫⚽🤙☕🏆🤫👈😮🙆🍻🍃🐶💁😲🌿🧡🎁⚡🌞🎈❌✊👋😰🤨😶🤝🚶💰🍓💢🤟🙁🚨💨🤬✈🎀🍺🤓😙💟🌱😖👶"
    "🥴▶➡❓💎💸⬇😨🌚🦋😷🕺⚠🙅😟😵👎🤲🤠🤧📌🔵💅🧐🐾🍒😗🤑🌊🤯🐷☎💧😯💆👆🎤🙇🍑❄🌴💣🐸💌📍🥀🤢👅💡💩👐📸👻🤐🤮🎼🥵🚩🍎🍊👼💍📣🥂"
)
# Alphabets of multibase, by prefix.
BASES = {
    **{"0": "01", "7": DIGITS[:8], "9": DIGITS, "f": DIGITS + "abcdef", "F": DIGITS + "ABCDEF"},
    **dict.fromkeys("bc", LOWER + "234567") | dict.fromkeys("BC", UPPER + "234567"),
    **dict.fromkeys("vt", DIGITS + LOWER[:22]) | dict.fromkeys("VT", DIGITS + UPPER[:22]),
    **{"h": "ybndrfg8ejkmcpqxot1uwisza345h769", "k": DIGITS + LOWER, "K": DIGITS + UPPER},
    **{"z": BITCOIN, "Z": BITCOIN[:9] + BITCOIN[33:] + BITCOIN[9:33]},
    **dict.fromkeys("mM", UPPER + LOWER + DIGITS + "+/") | dict.fromkeys("uU", UPPER + LOWER + DIGITS + "-_"),
    EMOJI[0]: EMOJI,
}


def decode_base(alphabet, encoded):
    """The bytes; None if the text is not of this alphabet."""
    bits = len(alphabet).bit_length() - 1
    # base256emoji has no padding.
    is_binary = len(alphabet) == 1 << bits < 256
    plain = encoded.rstrip("=") if is_binary else encoded
    value = 0
    for character in plain:
        if character not in alphabet:
            return None
        value = value * len(alphabet) + alphabet.index(character)
    if not is_binary:
        zeros = len(plain) - len(plain.lstrip(alphabet[0]))
        return bytes(zeros) + value.to_bytes((value.bit_length() + 7) // 8, "big")
    left = len(plain) * bits % 8
    if left >= bits or value & ((1 << left) - 1):
        return None
    return (value >> left).to_bytes(len(plain) * bits // 8, "big")


def canonical_cid(given):
    """The bytes of a CID, of version 0 as of version 1; any other text as it is."""
    if given.startswith("Q"):
        data = decode_base(BITCOIN, given)
        return b"\x01\x70" + data if data is not None and len(data) == 34 and data[:2] == b"\x12\x20" else given
    data = decode_base(BASES[given[0]], given[1:]) if given[:1] in BASES else None
    return data if data is not None and data[:1] == b"\x01" else given


SPELLED = {"artifact_digest": canonical_digest, "cid": canonical_cid}


def spelled_once(field, value):
    return SPELLED[field](value) if field in SPELLED else value


def term_values(record, field):
    """What a record can be selected by, digests and CIDs in one spelling."""
    request, outcome = record["request"], record["outcome"]
    if field == "principal":
        values = [record["caller"]["principal_id"]]
    elif field == "decision_id":
        values = [record["record_id"] if record["kind"] == "decision" else request.get("decision_id")]
    elif field == "on_behalf_of":
        subject = request.get("on_behalf_of")
        subject = subject if isinstance(subject, dict) else {}
        type_, id_ = subject.get("type"), subject.get("id")
        named = text(type_) and text(id_)
        values = [type_.replace("~", "~0").replace("/", "~1") + "/" + id_ if named else None]
    elif field == "resource_id":
        resource = request.get("resource")
        values = [resource.get("id") if isinstance(resource, dict) else None]
    elif field == "label":
        labels = request.get("labels")
        values = labels if isinstance(labels, list) else []
    elif field == "artifact_digest":
        values = [request.get("artifact_digest")]
    else:
        values = [request.get("artifact_cid"), request.get("artifact_merkle_root_cid"), outcome.get("artifact_cid")]
    return [spelled_once(field, value) for value in values if text(value) and value != ""]


class Pack:
    def __init__(self, header, trust):
        self.checkpoint = Checkpoint(header["checkpoint"])
        self.key, self.cosigned = trust.open(self.checkpoint)
        self.tenant = header["tenant_id"]
        require(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", self.tenant, re.ASCII), "the tenant is malformed")
        require(is_moment(header["made_at"]), "made_at is malformed")
        self.selection = parse_selection(header["selection"])
        self.is_range = self.selection["field"] is None
        self.tree = GrowingTree()
        self.policies, self.announced = {}, None
        self.claims = {}
        self.newest_time = ""
        self.entries = self.records = self.erased = 0
        # Of a range: index of the newest entry up to the right neighbour, and whether that was seen.
        self.newest, self.closed, self.leaves = None, False, 0
        # Of another selection.
        self.linked, self.decisions = [], set()
        # Of its time range: where the newest entry is, its index, and whether it needs an end of the range beside it.
        self.where, self.latest, self.bare = "before" if self.selection["from"] is not None else "within", -1, False
        self.first, self.after, self.shown = 0 if self.where == "within" else None, None, 0
        if self.selection["field"] == "decision_id":
            self.decisions.add(self.selection["value"])

    def policy(self, line):
        revision, content = line["revision"], line.get("content")
        require(self.announced is None, "follows a policy revision that decided nothing")
        require(revision not in self.policies, "shows a policy revision twice")
        if content is not None:
            address = "sha256:" + hashlib.sha256(content.encode()).hexdigest()
            require(address == revision, "has a policy text that is not that of its revision")
        self.policies[revision], self.announced = content is not None, revision

    def entry(self, line):
        index, leaf_bytes = as_count(line["leaf_index"]), line["leaf"].encode()
        size = self.checkpoint.size
        require(self.tree.size <= index < size, "is out of order, or beyond the tree")
        leaf = read_leaf(leaf_bytes)
        require((leaf["kind"] == "genesis") == (index == 0), "is of a kind that cannot stand there")
        opening, record, erased = line.get("opening"), line.get("record"), line.get("erased", False)
        require((opening is None) == (record is None), "has a record or an opening alone")
        require(not erased or (record is None and leaf["kind"] not in NEVER_ERASED), "cannot have been erased")
        if record is not None:
            record = open_record(leaf, parse_base64(opening), record.encode())
            require(record["tenant_id"] == self.tenant, "has a record of another tenant")
            require(record["log"] == self.checkpoint.origin, "has a record of another log")
        require(leaf["recorded_at"] >= self.newest_time, "is older than the one before it")
        self.check_policy(leaf, record, erased)
        self.check_rotation(record)
        erases = self.check_erasure(index, leaf, record, erased)
        if self.is_range:
            self.check_range(index, leaf, record, erased, erases)
        else:
            self.check_item(index, leaf, record, erased, erases)
        self.place(line.get("gap", []), index)
        self.tree.append(leaf_hash(leaf_bytes))
        self.newest_time = leaf["recorded_at"]
        self.entries += 1
        self.records += record is not None
        self.erased += bool(erased)

    def check_policy(self, leaf, record, erased):
        revision = leaf.get("policy_revision") if record is not None or erased else None
        require(self.announced is None or self.announced == revision, "was not decided by the policy before it")
        require(revision is None or revision in self.policies, "was decided by a policy that is not shown")
        self.announced = None

    def check_rotation(self, record):
        """After its rotation an old key counts only beside the new one."""
        if record is None or record["kind"] != "key_rotation":
            return
        values = [record["outcome"].get(name) for name in ("public_key", "previous_public_key")]
        current, previous = (parse_base64(value) if text(value) else None for value in values)
        good = current is not None and previous is not None and len(current) == len(previous) == 32
        require(good, "does not say which keys it is of")
        require(not self.is_signed_by(previous) or self.is_signed_by(current), "replaced a key, which signed alone")

    def is_signed_by(self, public_key):
        data = b"\1" + public_key
        digest = hashlib.sha256(self.key.name.encode() + b"\n" + data).digest()[:4].hex()
        try:
            self.checkpoint.open([Key(f"{self.key.name}+{digest}+{base64.b64encode(data).decode()}", 1)])
        except Refused:
            return False
        return True

    def check_erasure(self, index, leaf, record, erased):
        """Whether the entry erases what the pack said to be erased."""
        if erased:
            require(leaf["record_id"] not in self.claims, "has the id of another erased record")
            self.claims[leaf["record_id"]] = index
            require(len(self.claims) <= MAX_KEPT, "is one erased record too many without its erasure")
        if record is None or record["kind"] != "erasure":
            return False
        erased_id, erased_index = record["request"].get("record_id"), record["outcome"].get("leaf_index")
        uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        good = text(erased_id) and re.fullmatch(uuid, erased_id) and isinstance(erased_index, float)
        require(good, "does not say what it erases")
        if erased_id not in self.claims:
            return False
        require(self.claims.pop(erased_id) == erased_index, "names the wrong leaf for what it erases")
        return True

    def check_range(self, index, leaf, record, erased, erases):
        begin, end = self.selection["from"], self.selection["to"]
        before = begin is not None and leaf["recorded_at"] < begin
        after = end is not None and leaf["recorded_at"] >= end
        require(not before or self.newest is None, "is one too many before the range")
        expected = 0 if self.newest is None else self.newest + 1
        require(before or self.closed or index == expected, "comes after one that is left out")
        self.newest = index
        if before or after:
            require(not erased and (record is None or erases), "has a record that is not of the range")
            needed = not self.closed or erases or index == self.checkpoint.size - 1
            require(needed, "is not of the range")
            self.closed = self.closed or after
            return
        require(record is not None or erased, "is of the range, and its record is left out")
        self.leaves += 1

    def locate(self, index, leaf, shows):
        """Where a leaf is in the time range of another selection: before it, within or after."""
        begin, end, time = self.selection["from"], self.selection["to"], leaf["recorded_at"]
        is_before = begin is not None and time < begin
        place = "after" if end is not None and time >= end else "before" if is_before else "within"
        is_first = place != self.where
        require(not is_first or index == self.latest + 1, "comes after one that is left out beside an end of the range")
        require(is_first or not self.bare, "comes after one that shows nothing")
        if is_first and place == "within":
            self.first = index
        if is_first and place == "after":
            self.after = index
        self.where, self.latest, self.bare = place, index, not is_first and not shows
        return place

    def check_item(self, index, leaf, record, erased, erases):
        within = self.locate(index, leaf, record is not None or erased) == "within"
        if record is None and not erased:
            return
        self.shown += within
        field = self.selection["field"]
        value = spelled_once(field, self.selection["value"])
        cited = [leaf["record_id"]] if record is None else term_values(record, "decision_id")
        if record is not None and within and value in term_values(record, field):
            if field in LINKED:
                self.decisions.update(cited)
        elif not erases:
            self.linked.append(cited)
        require(max(len(self.linked), len(self.decisions)) <= MAX_KEPT, "is one linked record too many")

    def place(self, gap, index):
        heights = list(heights_between(self.tree.size, index))
        require(len(heights) == len(gap), f"takes {len(heights)} hashes before it")
        for height, encoded in zip(heights, gap):
            value = parse_base64(encoded)
            require(value is not None and len(value) == 32, "has a malformed hash before it")
            self.tree.append(value, height)

    def end(self, line):
        size, root = self.checkpoint.size, self.checkpoint.root
        require(self.announced is None, "follows a policy revision that decided nothing")
        require(as_count(line["entries"]) == self.entries, "counts other entries than there are")
        require(self.entries > 0 and self.tree.size == size, "comes before the log's last leaf")
        require(self.tree.root() == root, "closes a tree of another root")
        require(not self.claims, "closes with an erased record whose erasure is not shown")
        for cited in self.linked:
            require(cited and cited[0] in self.decisions, "closes with a record that is not of the selection")

    def part(self):
        """How many leaves the time range of another selection has, and how many of them are shown or erased."""
        if self.is_range or (self.selection["from"] is None and self.selection["to"] is None):
            return {}
        after = self.checkpoint.size if self.after is None else self.after
        leaves = 0 if self.first is None else after - self.first
        return {"part": {"leaves": leaves, "shown": self.shown, "closed": self.after is not None}}

    def report(self):
        return {
            "log": self.checkpoint.origin,
            "key_id": self.key.key_id,
            "tree_size": self.checkpoint.size,
            "root": base64.b64encode(self.checkpoint.root).decode(),
            "witnesses": self.cosigned,
            "tenant_id": self.tenant,
            # No leaf names its tenant: without a record, the tenant in the header is not proven.
            **({} if self.records else {"not_proven": ["tenant_id"]}),
            "records": self.records,
            "erased": self.erased,
            "leaves_only": self.entries - self.records - self.erased,
            "complete": self.is_range,
            **({"range": {"leaves": self.leaves, "closed": self.closed}} if self.is_range else {}),
            **self.part(),
            "policies": [{"revision": name, "shown": shown} for name, shown in self.policies.items()],
        }


def verify_pack(file, trust):
    digest, pack, ended = hashlib.sha256(), None, False
    with open(file, "rb") as opened:
        number = 0
        while data := opened.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                require(len(data) <= MAX_LINE_BYTES, "is too long")
                require(data.endswith(b"\n"), "is cut off")
                require(not ended, "comes after the end")
                line = parse_line(data[:-1])
                if line["type"] == "header":
                    require(pack is None, "is a second header")
                    pack = Pack(line, trust)
                else:
                    require(pack is not None, "stands where the header should")
                    if line["type"] == "policy":
                        pack.policy(line)
                    elif line["type"] == "entry":
                        pack.entry(line)
                    else:
                        require(line["sha256"] == digest.hexdigest(), "says that the pack was changed")
                        pack.end(line)
                        ended = True
            except Refused as error:
                raise Refused(f"line {number}: {error}") from error
            digest.update(data)
    require(ended, "the pack is cut off: it has no end")
    return pack.report()


def verify(kind, file, trust, records):
    if kind == "receipt":
        return verify_receipt(file, trust)
    if kind == "pack":
        return verify_pack(file, trust)
    if records is None:
        return verify_range(file, trust, [])
    with open(records, "rb") as opened:
        return verify_range(file, trust, opened.read().splitlines())


def main():
    parser = argparse.ArgumentParser(description="Checks receipts and packs of an evidence ledger.")
    parser.add_argument("kind", choices=("receipt", "range", "pack"))
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--key", action="append", required=True, help="a verifier key of the log, VKEY or VKEY@SIZE")
    parser.add_argument("--witness", action="append", default=[], help="a verifier key of a witness")
    parser.add_argument("--quorum", type=int, help="so many witnesses are enough; all where nothing is said")
    parser.add_argument("--records", metavar="FILE", help="texts of records of a range, one a line, to be opened")
    options = parser.parse_args()
    ok = True
    for file in options.files:
        try:
            trust = Trust(options.key, options.witness, options.quorum)
            result = {"ok": True, **verify(options.kind, file, trust, options.records)}
        except (Refused, OSError) as error:
            result = {"ok": False, "problem": str(error)}
        ok = ok and result["ok"]
        print(json.dumps(result))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
