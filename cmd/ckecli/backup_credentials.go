package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/storage"
)

// backupSecrets are the credentials for backup targets.
type backupSecrets interface {
	SetBackupCredentials(ctx context.Context, cluster string, c storage.BackupCredentials) error
	BackupCredentials(ctx context.Context, cluster string) (storage.BackupCredentials, error)
	ListBackupCredentials(ctx context.Context) ([]storage.BackupCredentialsInfo, error)
	DeleteBackupCredentials(ctx context.Context, cluster string) error
}

func newBackupCredentialsCommand(a *app) *cobra.Command {
	return newGroup("credentials", "", "Give cke the credentials for backup targets in S3",
		newBackupCredentialsSetCommand(a), newBackupCredentialsListCommand(a), newBackupCredentialsDeleteCommand(a))
}

const credentialsScope = `Without --cluster the credentials are for the targets of all clusters; with it, for the target of that cluster. A cluster's own
credentials take precedence. CKECLI_CLUSTER does not narrow them.`

func newBackupCredentialsSetCommand(a *app) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use:   "set FILE|-",
		Short: "Seal credentials for S3 in the store",
		Long: `Seal credentials for S3 in the store, in place of those that were there. FILE has the format of ~/.aws/credentials:

  [default]
  aws_access_key_id = …
  aws_secret_access_key = …

` + credentialsScope,
		Args: arguments(1, 1),
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runBackupCredentialsSet(ctx, a, s, args[0], profile)
		}),
	}
	cmd.Flags().StringVar(&profile, "profile", "", "`section` of the file (default: default)")
	must(cmd.RegisterFlagCompletionFunc("profile", cobra.NoFileCompletions))
	return cmd
}

func runBackupCredentialsSet(ctx context.Context, a *app, s backupSecrets, file, profile string) error {
	c, err := a.readCredentials(ctx, file, profile)
	if err != nil {
		return err
	}
	sealed := storage.BackupCredentials{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken}
	if err := s.SetBackupCredentials(ctx, a.clusterFlag, sealed); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "Sealed for the backup targets of %s.\n", credentialsFor(a.clusterFlag))
	data := struct {
		Cluster   string `json:"cluster,omitempty"`
		AccessKey string `json:"accessKey"`
	}{a.clusterFlag, c.AccessKey}
	return a.showLine(data, c.AccessKey, c.AccessKey)
}

func credentialsFor(cluster string) string {
	if cluster == "" {
		return "all clusters"
	}
	return "cluster " + cluster
}

func newBackupCredentialsListCommand(a *app) *cobra.Command {
	return a.listing("List the credentials, without their secrets", func(ctx context.Context, a *app, s store) error { return runBackupCredentialsList(ctx, a, s) })
}

func runBackupCredentialsList(ctx context.Context, a *app, s backupSecrets) error {
	infos, err := s.ListBackupCredentials(ctx)
	if err != nil {
		return err
	}
	all, names := inScope(a, infos, func(i storage.BackupCredentialsInfo) (string, string) { return i.Cluster, i.AccessKey })
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		if len(all) == 0 {
			fmt.Fprintln(a.stderr, "There are no backup credentials in the store. Set some with: ckecli backup credentials set FILE")
			return nil
		}
		t := term.NewTable("CLUSTER", "ACCESS KEY", "SET")
		for _, i := range all {
			t.Add(term.Text(orAll(i.Cluster)), term.Text(i.AccessKey), term.Text(a.ago(i.SetAt)+" ago"))
		}
		return t.Write(w, colour)
	}})
}

func newBackupCredentialsDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete",
		Short: "Delete credentials that are not in use",
		Long:  "Delete credentials. Credentials are in use, and not deleted, while a cluster's backup target cannot be reached without them.\n\n" + credentialsScope,
		Args:  arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runBackupCredentialsDelete(ctx, a, s)
		}),
	}
}

func runBackupCredentialsDelete(ctx context.Context, a *app, s backupSecrets) error {
	none := &cke.Error{Code: cke.CodeConfig, What: "there are no backup credentials for " + credentialsFor(a.clusterFlag), Unchanged: true, Try: "ckecli backup credentials list"}
	return a.deletedSecret(s.DeleteBackupCredentials(ctx, a.clusterFlag), none, fmt.Sprintf("The backup credentials for %s are deleted.", credentialsFor(a.clusterFlag)))
}
