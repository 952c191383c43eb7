import { afterEach, describe, expect, it, vi } from "vitest";

import { call, Failed, inWords, unanswered } from "./api";

afterEach(() => vi.unstubAllGlobals());

function answering(answer: () => Promise<Response>) {
  vi.stubGlobal("document", { querySelector: () => null });
  vi.stubGlobal("location", { href: "http://host/air/plugin/lakeward" });
  vi.stubGlobal("fetch", answer);
}

describe("answers of the API", () => {
  it("keeps the words of the API's errors", () => {
    const error = { code: "LW-5902", what: "There is no stream 'x'", why: "", next: "lakeward streams list" };
    expect(inWords(404, { error })).toEqual(error);
  });
  it("says that a permission is missing, also without a word from the server", () => {
    expect(inWords(403, { detail: "Forbidden" })).toMatchObject({ what: "You have no permission for this", why: "Forbidden" });
    expect(inWords(403, null).what).toBe("You have no permission for this");
    expect(inWords(401, { detail: "expired" }).what).toBe("You are not logged in any more");
  });
  it("tells an answer that is too late from a connection that fails", () => {
    expect(unanswered(new DOMException("", "TimeoutError")).why).toBe("no answer within 30 s");
    expect(unanswered(new TypeError("Failed to fetch")).why).toBe("Failed to fetch");
  });
  it("never gives something else than data", async () => {
    answering(() => Promise.resolve(new Response("<p>a proxy's page</p>")));
    await expect(call("x")).rejects.toMatchObject({ status: 200 });
    answering(() => Promise.resolve(new Response("null")));
    await expect(call("x")).rejects.toBeInstanceOf(Failed);
    answering(() => Promise.reject(new TypeError("Failed to fetch")));
    await expect(call("x")).rejects.toMatchObject({ status: 0, error: { what: "Airflow does not answer" } });
  });
});
