/** How often a random search draws: a few times in each run of `npm test`, and as often as it needs in the long lane. */
export function draws(few: number, many: number): number {
  return process.env.LONG_TESTS === "on" ? many : few;
}
