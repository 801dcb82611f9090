/** What the HTML pages share. */

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text as it may stand between tags and in a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] as string);
}

/** A shield, as a data URL: browsers ask for `/favicon.ico` where a page names no icon. */
export const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230b57a4' " +
  "d='M8 1 2 3v5c0 3.5 2.5 6 6 7 3.500-1 6-3.500 6-7V3z'/%3E%3C/svg%3E";
