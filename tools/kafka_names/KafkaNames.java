import java.util.TreeSet;
import org.apache.kafka.server.config.AbstractKafkaConfig;

/**
 * Prints the names of all broker properties, for coordinator_server/config/kafka_names.py.
 *
 * With the jars of a Kafka release in LIBS:  java -cp 'LIBS/*' KafkaNames.java
 */
public final class KafkaNames {
    public static void main(String[] arguments) {
        new TreeSet<>(AbstractKafkaConfig.CONFIG_DEF.names()).forEach(System.out::println);
    }
}
