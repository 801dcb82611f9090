/** Whether the error is one of the file system with one of these codes. */
export function isFileError(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
