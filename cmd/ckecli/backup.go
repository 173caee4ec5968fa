package main

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/storage"
)

func newBackupCommand(a *app) *cobra.Command {
	cmd := newGroup("backup", groupBackup, "Take, list, verify, restore and manage backups",
		newBackupNowCommand(a), newBackupListCommand(a), newBackupShowCommand(a), newBackupVerifyCommand(a), newBackupExtractCommand(a), newBackupCopyCommand(a),
		newBackupPruneCommand(a), newBackupDeleteCommand(a), newBackupCompactCommand(a), newBackupCredentialsCommand(a))
	cmd.Long = backupLong
	return cmd
}

const backupLong = `Take, list, verify, restore and manage backups.

With --target URL only the target is needed: no store, no cke, no configuration file. Without it, the target is
that of the cluster in the store. URLs are file:///DIR, s3://BUCKET/PREFIX?region=…, gs://BUCKET/PREFIX and
azblob://CONTAINER/PREFIX. If a target has backups of several clusters, choose one with --cluster or --backup-cluster.

Credentials are read from --credentials, else from the environment, else, without --target, from the store, else from
the provider's usual files.`

// backupOptions choose the backups that a command works on.
type backupOptions struct {
	// target is the URL; empty: that of the cluster in the store.
	target string
	// cluster is the name in the target; empty: that of --cluster, or the only one.
	cluster string
	// credentials is a file of AWS' format, profile a section in it.
	credentials, profile string
	// keys are files with age identities.
	keys []string
	// trust are keys that sign backups, or cke.TrustAny.
	trust []string
	// scratch is a directory for working copies; empty: the system's.
	scratch string
}

// addTarget adds the flags that choose a target.
func (o *backupOptions) addTarget(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.target, "target", "", "`URL` of the backups; needs no store (default: the target of the cluster in the store)")
	f.StringVar(&o.cluster, "backup-cluster", "", "`name` of the cluster in the target, if it is another than that of --cluster")
	o.addCredentials(cmd)
	must(cmd.RegisterFlagCompletionFunc("backup-cluster", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("target", cobra.NoFileCompletions))
}

func (o *backupOptions) addCredentials(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.credentials, "credentials", "", "credentials `file` for S3, of the format of ~/.aws/credentials")
	cmd.Flags().StringVar(&o.profile, "profile", "", "`section` of the credentials file (default: default)")
	must(cmd.RegisterFlagCompletionFunc("profile", cobra.NoFileCompletions))
}

func (o *backupOptions) addKeys(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.keys, "key", nil, "`file` with an age identity that opens encrypted backups; may be repeated")
	o.addTrust(cmd)
}

// addTrust adds the flag that says whose backups are accepted.
func (o *backupOptions) addTrust(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.trust, "trust", nil, "accept backups signed by `KEY`, or all backups (any); may be repeated")
	must(cmd.RegisterFlagCompletionFunc("trust", cobra.NoFileCompletions))
}

func (o *backupOptions) addScratch(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.scratch, "scratch", "", "`directory` for working copies of databases (default: the system's temporary one)")
	must(cmd.MarkFlagDirname("scratch"))
}

// backups are the backups in an open target.
type backups struct {
	// past is what the store has on record of the chosen cluster; its zero value: nothing is known.
	past backup.Past
	// orders is the store whose restores may need the backups; nil: none is known.
	orders backup.Orders
	// where is the target's URL without secrets.
	where string
	// cluster is the name that was chosen; empty: none.
	cluster string
	// given: the command line names the target.
	given bool
	// spec is that of the cluster whose target it is; the zero value with --target.
	spec       cke.Cluster
	bucket     *meter
	identities []age.Identity
	// signer is this host's, if its key file can be read; trusted are the keys that backups have to be signed with.
	signer  *backup.Signer
	trusted []backup.PublicKey
	anyone  bool
	scratch string
	target  *target.Target
}

func (b *backups) Close() { b.target.Close() }

// onBackups is the RunE of a command that works on the backups in a target, which is closed at its end.
func (a *app) onBackups(o *backupOptions, run func(ctx context.Context, b *backups, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, err := a.openBackups(cmd.Context(), *o)
		if err != nil {
			return err
		}
		defer b.Close()
		return run(cmd.Context(), b, args)
	}
}

// openBackups opens the target that a command is about. Nothing is asked of it yet.
func (a *app) openBackups(ctx context.Context, o backupOptions) (*backups, error) {
	b := &backups{cluster: o.cluster, given: o.target != "", scratch: o.scratch}
	for _, file := range o.keys {
		ids, err := a.readIdentities(ctx, file)
		if err != nil {
			return nil, err
		}
		b.identities = append(b.identities, ids...)
	}
	if err := a.trust(b, o.trust); err != nil {
		return nil, err
	}
	rawURL := o.target
	if b.cluster == "" {
		b.cluster = a.cluster
	}
	credentials, err := a.givenCredentials(ctx, o)
	if err != nil {
		return nil, err
	}
	if rawURL == "" {
		s, err := a.connect(ctx)
		if err != nil {
			return nil, withoutStore(err)
		}
		if b.spec, err = a.backedUp(ctx, s); err != nil {
			return nil, err
		}
		if rawURL = b.spec.Backup.Target; b.cluster == "" {
			b.cluster = b.spec.Name
		}
		b.orders = s
		b.past = backup.OnRecord(ctx, s, b.cluster, rawURL)
		if credentials, err = a.storedCredentials(ctx, s, b.spec, credentials); err != nil {
			return nil, err
		}
	}
	return b, b.open(ctx, rawURL, credentials)
}

// trust finds out whose backups are accepted. Where no key file can be read and no key is named, no key is known: all are read, and
// nothing that is signed is deleted.
func (a *app) trust(b *backups, named []string) error {
	var own []age.Identity
	config, err := a.loadConfig()
	if err == nil {
		var id age.Identity
		if id, err = storage.ReadKeyFile(config.SecretKeyFile); err == nil {
			own, b.signer = append(own, id), backup.NewSigner(id)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.notes([]string{"this host's own signing key is not known: " + err.Error()})
	}
	if b.trusted, b.anyone, err = backup.TrustedBy(own, named); err != nil {
		return &cke.Error{Code: cke.CodeUntrusted, What: "--trust", Facts: []string{err.Error()}, Unchanged: true}
	}
	return nil
}

func (b *backups) open(ctx context.Context, rawURL string, c target.Credentials) error {
	b.where, b.bucket = shownURL(rawURL), &meter{}
	t, err := target.Open(ctx, rawURL, c)
	if err != nil {
		return b.fail(ctx, "open the backup target", err)
	}
	b.target, b.bucket.Bucket = t, t
	return nil
}

// shownURL is a URL without a password.
func shownURL(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		return u.Redacted()
	}
	return "URL"
}

// withoutStore names the way that needs no store.
func withoutStore(err error) error {
	var coded *cke.Error
	if errors.As(err, &coded) && coded.Code == cke.CodeStore {
		coded.Facts = append(coded.Facts, "with --target URL backups can be read without it")
	}
	return err
}

// backedUp returns the cluster file of the cluster that is chosen, which must have a backup section.
func (a *app) backedUp(ctx context.Context, s specs) (cke.Cluster, error) {
	name, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return cke.Cluster{}, withoutStore(err)
	}
	if spec.Cluster.Backup.Target == "" {
		return cke.Cluster{}, &cke.Error{Code: cke.CodeTarget, What: "cluster " + name + " has no backup target", Unchanged: true,
			Facts: []string{"write a backup section into its cluster file, or name a target with --target URL"}}
	}
	return spec.Cluster, nil
}

// givenCredentials are those that the command line names.
func (a *app) givenCredentials(ctx context.Context, o backupOptions) (target.Credentials, error) {
	if o.credentials == "" {
		return target.Credentials{Profile: o.profile}, nil
	}
	return a.readCredentials(ctx, o.credentials, o.profile)
}

// readCredentials reads a credentials file. Nothing of it is quoted.
func (a *app) readCredentials(ctx context.Context, file, profile string) (target.Credentials, error) {
	text, err := a.readFile(ctx, file)
	if err != nil {
		return target.Credentials{}, err
	}
	c, err := target.ParseCredentials(string(text), profile)
	if err != nil {
		return c, &cke.Error{Code: cke.CodeConfig, What: "credentials file " + file + " cannot be used", Err: err, Unchanged: true}
	}
	return c, nil
}

// storedCredentials adds those in the store, unless the command line or the environment gives any.
func (a *app) storedCredentials(ctx context.Context, s backupSecrets, c cke.Cluster, given target.Credentials) (target.Credentials, error) {
	if given != (target.Credentials{}) || !strings.HasPrefix(c.Backup.Target, "s3:") || a.getenv("AWS_ACCESS_KEY_ID") != "" || a.getenv("AWS_PROFILE") != "" {
		return given, nil
	}
	stored, err := s.BackupCredentials(ctx, c.Name)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		return given, nil
	case cke.CodeOf(err) == cke.CodeSecret:
		var coded *cke.Error
		errors.As(err, &coded)
		coded.Facts = append(coded.Facts, "the credentials of the backup target are sealed with it; others can be given with --credentials FILE or in the environment")
		return given, err
	}
	return target.Credentials{AccessKey: stored.AccessKey, SecretKey: stored.SecretKey, SessionToken: stored.SessionToken}, err
}

// readIdentities reads an age identity file. The cause of a failure could quote it.
func (a *app) readIdentities(ctx context.Context, file string) ([]age.Identity, error) {
	text, err := a.readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	ids, err := backup.ParseIdentities(string(text))
	if err != nil {
		return nil, &cke.Error{Code: cke.CodeBackupKey, What: file + " holds no age identity", Unchanged: true,
			Facts: []string{"the file must have a line like AGE-SECRET-KEY-1…, the private part of one of the recipients"}}
	}
	return ids, nil
}
