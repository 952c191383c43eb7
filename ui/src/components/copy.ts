const TOKENS = /(?:"[^"]*"|'[^']*'|[^\s"'])+|\s+/g;

/** The command in a sentence that says what is next: what follows two spaces, a comma or a semicolon explains it. */
export function commandIn(text: string): string {
  const at = text.indexOf("lakeward ");
  if (at < 0) return (text.split(/ {3,}/)[0] ?? "").trim();
  const words: string[] = [];
  for (const token of text.slice(at).match(TOKENS) ?? []) {
    if (/^\s/.test(token)) {
      if (token.length > 1) break;
      continue;
    }
    if (token.startsWith("(")) break;
    words.push(token.replace(/[,;]$/, ""));
    if (/[,;]$/.test(token)) break;
  }
  return words.join(" ");
}

/** Copies a text; tells whether it did.

Browsers give `navigator.clipboard` to https and localhost only, and Airflow is often served by plain http. The older way
needs a selection, inside of the drawer: a drawer takes the focus back from what is outside.
*/
export async function copy(text: string, container: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.readOnly = true;
    field.style.cssText = "position:fixed;opacity:0";
    container.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
