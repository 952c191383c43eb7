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
