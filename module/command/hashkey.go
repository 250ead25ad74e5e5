package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
)

func hashKeyCommand() *cobra.Command {
	var keyEnv string
	cmd := &cobra.Command{
		Use:   "hash-key <principal>",
		Short: "Makes a key of a caller, and the line for callers_file",
		Long: `Makes a random key of 256 bits for a caller. It writes the key to standard error, and to standard output the line for the option callers_file: the
principal and the SHA-256 of the key. The key is kept nowhere. The caller sends it as Authorization: Bearer <key>.

--key-env names an environment variable with a key that exists already. It must be random: a key that is a word or a name can be guessed by anyone who can
read its hash.

Exit status: 0 success, 1 wrong usage, 5 writing the line failed.`,
		Example: `  caddy skill-bridge hash-key alice >> /etc/caddy/callers
  ALICE_KEY=... caddy skill-bridge hash-key alice --key-env ALICE_KEY >> /etc/caddy/callers`,
		Args: arguments(1, 1),
	}
	cmd.Flags().StringVar(&keyEnv, "key-env", "", "Environment variable that contains the key")
	cmd.RunE = exits(func(_ *cobra.Command, screen *cli.Screen, args []string) (int, error) {
		key := os.Getenv(keyEnv)
		if keyEnv == "" {
			key = callers.NewKey()
		} else if key == "" {
			return 0, fmt.Errorf("--key-env: the environment variable %s is not set, or empty", keyEnv)
		}
		if err := callers.CheckKey(key); err != nil {
			return 0, fmt.Errorf("--key-env %s: %w", keyEnv, err)
		}
		line, err := callers.Line(args[0], key)
		if err != nil {
			return 0, err
		}
		fmt.Fprintln(screen.Out, line)
		if keyEnv == "" {
			fmt.Fprintf(screen.Err, "The key of %s, which is shown only now:\n%s\n", args[0], key)
		}
		return cli.OK, nil
	})
	return cmd
}
