import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Asks for the probability of fraud of one row. Java 11 and later. */
public class Call {
    public static void main(String[] arguments) throws Exception {
        String row = "0,".repeat(29) + "0";
        String tensor = "{\"name\":\"input\",\"shape\":[1,30],\"datatype\":\"FP32\",\"data\":[" + row + "]}";
        String body = "{\"inputs\":[" + tensor + "]}";
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:8000/v2/models/fraud/infer"))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        HttpResponse<String> reply = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (reply.statusCode() != 200) {
            throw new IllegalStateException(reply.body());
        }
        // A library for JSON is the better way; this example has none.
        Matcher data = Pattern.compile("\"data\":\\[([^,\\]]+)").matcher(reply.body());
        System.out.println(data.find() ? data.group(1) : reply.body());
    }
}
