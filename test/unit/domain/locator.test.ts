import fc from "fast-check";
import { expect, test } from "vitest";
import { stripLocator } from "../../../src/domain/registration.ts";

test.each([
  ["s3://archive/2026/cust-8841.tdf", "s3://archive/2026/cust-8841.tdf"],
  ["s3://key:secret@archive/a.tdf", "s3://archive/a.tdf"],
  ["https://host:8443/a", "https://host:8443/a"],
  ["https://user:pw@[2001:db8::1]:8443/a?x", "https://[2001:db8::1]:8443/a"],
  ["https://user%40corp:pw@host/a", "https://host/a"],
  ["https://user:pw%40host/a", "https://host/a"],
  ["https:\\\\user:pw@host\\a", "https:\\\\host\\a"],
  ["https:user:pw@host/a", "host/a"],
  ["https:/@/user:pw@host/a", "https://host/a"],
  ["ht\ttps:/\n/user:pw@host/a", "https://host/a"],
  ["https://user:pa/ss@host/p", "https:///host/p"],
  ["https://user:p?w@host/p", "https://"],
  ["user:pw@host/path?sig=1", "host/path"],
  ["git@host:team/repo.git", "host:team/repo.git"],
  ["jdbc:postgresql://user:pw@host/db?password=x", "jdbc:postgresql://host/db"],
  ["https://proxy/https://user:pw@host/x", "https://proxy/https://host/x"],
  ["s3://bucket/jane@example.com/a.tdf", "s3://bucket/jane@example.com/a.tdf"],
  ["C:\\Users\\jane@corp\\a.tdf", "C:\\Users\\jane@corp\\a.tdf"],
  ["C:\\jane@corp\\a.tdf", "C:\\jane@corp\\a.tdf"],
  ["\\\\user@server\\share\\a.tdf", "\\\\server\\share\\a.tdf"],
  ["/var/jane@corp/a.tdf", "/var/jane@corp/a.tdf"],
  ["arn:aws:s3:::bucket/key", "arn:aws:s3:::bucket/key"],
  ["urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"],
  ["?sig=1", ""],
  ["#", ""],
  ["", ""],
])("%j is recorded as %j", (sent, recorded) => expect(stripLocator(sent)).toBe(recorded));

const secret = "PASSWORD";
const scheme = fc.constantFrom(
  "https://",
  "s3://",
  "//",
  "ftp:/",
  "",
  "jdbc:mysql://",
  "\\\\",
  "a:b:c://",
  "HTTPS:\\/",
);
const word = fc.stringMatching(/^[a-z0-9._~-]{1,8}$/);
const userText = fc.string({ unit: fc.constantFrom("u", ":", "@", "%", "4", "0", "!", "é", "\t", " ", "[", "]") });

test("no user information, query or fragment of a locator survives", () => {
  fc.assert(
    fc.property(
      scheme,
      userText,
      word,
      fc.array(word),
      fc.constantFrom("", "?", "#"),
      (start, user, host, path, mark) => {
        const tail = mark === "" ? "" : `${mark}${secret}@/${secret}`;
        const stripped = stripLocator(`${start}${user}${secret}@${host}/${path.join("/")}${tail}`);
        expect(stripped).not.toContain(secret);
        expect(stripped).not.toMatch(/[?#]/);
        expect(stripped).toContain(host);
      },
    ),
  );
});

const anyText = fc.string({
  unit: fc.constantFrom("a", ":", "/", "\\", "@", "?", "#", "%40", " ", "1", "[", "\n"),
  maxLength: 40,
});

test("stripping twice changes nothing, and a URL parser finds no credentials in the result", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const stripped = stripLocator(text);
      expect(stripLocator(stripped)).toBe(stripped);
      const url = URL.parse(stripped) ?? URL.parse(stripped, "https://base.example/");
      expect([url?.username ?? "", url?.password ?? "", url?.search ?? "", url?.hash ?? ""]).toEqual(["", "", "", ""]);
    }),
    { numRuns: 5_000 },
  );
});

test("stripping the longest locators ends", () => {
  for (const unit of ["@/", "//", "/@", ":", "a:/", "%40"]) stripLocator(unit.repeat(1024));
});
