package io.lakeward;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Compiles regular expressions as Spark would: one base64 pattern a line on stdin, one line of answer each on stdout.
 *
 * The answer is "ok", or the place in the pattern (-1: unknown) and the base64 of the reason.
 */
public class Patterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String pattern = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            try {
                Pattern.compile(pattern);
                System.out.println("ok");
            } catch (PatternSyntaxException wrong) {
                say(wrong.getIndex(), wrong.getDescription());
            } catch (StackOverflowError deep) {
                say(-1, "It is nested too deeply");
            }
        }
    }

    private static void say(int place, String reason) {
        byte[] text = reason.getBytes(StandardCharsets.UTF_8);
        System.out.println(place + " " + Base64.getEncoder().encodeToString(text));
    }
}
