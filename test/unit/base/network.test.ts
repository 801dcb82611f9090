import { expect, test } from "vitest";
import {
  addressBlocks,
  addressGroup,
  isInNetworks,
  isLoopbackAddress,
  isLoopbackHost,
  isLoopbackNetwork,
  parseNetwork,
} from "../../../src/base/network.ts";
import { must } from "../domain/world.ts";

const isIn = (network: string, address: string) => isInNetworks([must(parseNetwork(network))], address);

test.each([
  ["10.0.0.0/8", "10.255.0.1", "11.0.0.1"],
  ["10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"],
  ["::ffff:10.0.0.0/104", "10.0.0.1", "11.0.0.1"],
  ["192.0.2.7", "192.0.2.7", "192.0.2.8"],
  ["2001:db8::/32", "2001:db8:1::1", "2001:db9::1"],
  ["::1", "::1", "::2"],
  ["fe80::/10", "fe80::1%eth0", "fec0::1"],
  ["0.0.0.0/0", "192.0.2.1", "2001:db8::1"],
  ["::/0", "2001:db8::1", "192.0.2.1"],
  ["10.0.0.0/9", "10.127.255.255", "10.128.0.0"],
])("%s contains %s and not %s", (network, inside, outside) => {
  expect(isIn(network, inside)).toBe(true);
  expect(isIn(network, outside)).toBe(false);
});

test.each(["", "unix", "10.0.0.1:80"])("the peer %j is in no network", (peer) => {
  expect(isIn("0.0.0.0/0", peer)).toBe(false);
});

test.each([
  "",
  "localhost",
  "10.0.0.0/33",
  "10.0.0.0/-1",
  "10.0.0.0/08",
  "10.0.0.0/",
  "10.0.0.0/8/8",
  "10.0.0.0/255.0.0.0",
  "10/8",
  "010.0.0.0/8",
  "0x0a.0.0.0/8",
  "10.0.0.1/8",
  "2001:db8::1/32",
  "::/129",
  "fe80::1%eth0",
  "::ffff:0:0/95",
  " 10.0.0.0/8",
])("%j is no network", (text) => {
  expect(parseNetwork(text)).toBeUndefined();
});

test.each([
  ["localhost", true],
  ["127.0.0.1", true],
  ["127.8.9.1", true],
  ["[::1]", true],
  ["127.0.0.1.example.com", false],
  ["localhost.example.com", false],
  ["10.0.0.1", false],
  ["[::2]", false],
])("%s is loopback: %s", (host, expected) => {
  expect(isLoopbackHost(host)).toBe(expected);
});

test.each(["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"])("the peer %s is this machine", (address) => {
  expect(isLoopbackAddress(address)).toBe(true);
});

test.each(["", "unix", "localhost", "128.0.0.1", "0.0.0.0", "::", "::2", "fe80::1", "::ffff:10.0.0.1"])(
  "the peer %j is another machine",
  (address) => expect(isLoopbackAddress(address)).toBe(false),
);

test.each([
  ["127.0.0.0/8", true],
  ["127.0.0.1", true],
  ["::1", true],
  ["::ffff:127.0.0.0/104", true],
  ["126.0.0.0/7", false],
  ["0.0.0.0/0", false],
  ["::/127", false],
  ["10.0.0.1", false],
])("the network %s is this machine's alone: %s", (text, expected) => {
  expect(isLoopbackNetwork(must(parseNetwork(text)))).toBe(expected);
});

test.each([
  ["192.0.2.1", ["192.0.2.1"]],
  ["::ffff:192.0.2.1", ["192.0.2.1"]],
  ["2001:db8:1:2ff:3:4:5:6", ["2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"]],
  ["::1", ["::/64", "::/56", "::/48"]],
  ["", [""]],
])("%j is counted under %j", (address, blocks) => {
  expect(addressBlocks(addressGroup(address))).toEqual(blocks);
});
