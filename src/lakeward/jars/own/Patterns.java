package io.lakeward;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Compiles regular expressions as Spark would: one base64 pattern a line on stdin, one line of answer each on stdout.
 *
 * The answer is "ok"; "slow" if a short text takes more steps than any pattern should; or the place in the pattern
 * (-1: unknown) and the base64 of the reason why it does not compile.
 */
public class Patterns {
    private static final int LENGTH = 400;
    private static final int MOST = 12;
    private static final int STEPS = 2000000;
    private static final String ALWAYS = "a0 ";

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String pattern = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            try {
                Pattern compiled = Pattern.compile(pattern);
                System.out.println(slow(compiled) ? "slow" : "ok");
            } catch (PatternSyntaxException wrong) {
                say(wrong.getIndex(), wrong.getDescription());
            } catch (StackOverflowError deep) {
                say(-1, "It is nested too deeply");
            }
        }
    }

    /** Whether one of a few texts of 400 characters, made of what the pattern names, takes two million steps or more. */
    private static boolean slow(Pattern pattern) {
        List<String> units = units(pattern.pattern());
        for (int index = 0; index < units.size(); index++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < LENGTH) {
                text.append((String) units.get(index));
            }
            try {
                pattern.matcher(new Counted(text.append('\uffff').toString(), new int[] {STEPS})).find();
            } catch (TooLong found) {
                return true;
            } catch (StackOverflowError deep) {
                return true;
            }
        }
        return false;
    }

    /** Letters and digits of the pattern, its words, and its first letters in pairs. */
    private static List<String> units(String pattern) {
        Set<String> single = new LinkedHashSet<String>();
        Set<String> words = new LinkedHashSet<String>();
        StringBuilder word = new StringBuilder();
        for (int at = 0; at <= pattern.length(); at++) {
            char each = at < pattern.length() ? pattern.charAt(at) : '(';
            boolean escaped = at > 0 && pattern.charAt(at - 1) == '\\';
            if (!escaped && "()[]{}|*+?^$\\".indexOf(each) < 0 || escaped && !Character.isLetterOrDigit(each)) {
                single.add(String.valueOf(each));
                word.append(each);
            } else {
                if (word.length() > 1) {
                    words.add(word.toString());
                }
                word.setLength(0);
            }
        }
        for (int at = 0; at < ALWAYS.length(); at++) {
            single.add(ALWAYS.substring(at, at + 1));
        }
        List<String> found = first(single);
        int singles = Math.min(found.size(), 4);
        for (int left = 0; left < singles; left++) {
            for (int right = left + 1; right < singles; right++) {
                words.add((String) found.get(left) + (String) found.get(right));
            }
        }
        found.addAll(first(words));
        return found;
    }

    private static List<String> first(Set<String> from) {
        List<String> found = new ArrayList<String>(from);
        return found.size() > MOST ? new ArrayList<String>(found.subList(0, MOST)) : found;
    }

    private static void say(int place, String reason) {
        byte[] text = reason.getBytes(StandardCharsets.UTF_8);
        System.out.println(place + " " + Base64.getEncoder().encodeToString(text));
    }

    /** Thrown when a match takes too many steps. */
    private static class TooLong extends RuntimeException {
    }

    /** A text that counts how often it is looked at. */
    private static class Counted implements CharSequence {
        private final String text;
        private final int[] left;

        Counted(String text, int[] left) {
            this.text = text;
            this.left = left;
        }

        public int length() {
            return text.length();
        }

        public char charAt(int index) {
            if (--left[0] < 0) {
                throw new TooLong();
            }
            return text.charAt(index);
        }

        public CharSequence subSequence(int start, int end) {
            return text.subSequence(start, end);
        }

        public String toString() {
            return text;
        }
    }
}
